"""InexactNewton: the ERNN paper's method, which needs F alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import Progress, Solver
from autapse.solve.report import SolveReport
from autapse.solve.system import Groups, System

PATIENCE = 20  # points without a better one, after which a problem goes back to its best
GROWTH = 1e3  # of the least residual, beyond which it goes back at once
DECREASE = 1e-4  # part of the residual that a better point has lost
LONGER, SHORTER = 10.0, 0.5  # bounds of the step after one that did not help, the first time and from then on
SMALLEST, LARGEST = 1e-10, 1e10  # of |η|


@dataclass(frozen=True, kw_only=True)
class InexactNewton(Solver):
    """z ← z + η·(F(z) − z), η a number per problem and iteration; up to 300 evaluations.

    ERNN paper, section 3.2, equation 7 with f(z) = F(z) − z: a Newton step that leaves the error (I + η·f′)·f, and so
    converges locally where ‖I + η·f′‖ < 1 (its Theorem 1). The paper learns η with the network; `eta` is such a number.
    Without it η is Barzilai and Borwein's, −⟨s, s⟩ / ⟨s, y⟩ for the last step s and the change y of f. That may be
    negative, so points that F moves away from are found too. Residuals may grow for some steps, as that method's do;
    where they do not fall again, the problem goes back to its best point and takes steps that lower the residual. Where
    the theorem's condition holds for some η, short steps of its sign do, so it converges.
    """

    default_iterations: ClassVar[int] = 300

    eta: float | None = None
    """η of every iteration, without any safeguard; None chooses it as above."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta is not None:
            checks.number("eta", self.eta)

    @property
    def name(self) -> str:
        return "inexact newton"

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        z = system.zero() if start is None else start
        progress = Progress(system, z, self._tolerance(rtol), self.atol)
        limit = self._limit()
        search = _Search(self.eta)
        for n in range(limit):
            residual = progress.system.evaluate(z) - z
            progress.charge(1.0)
            progress.step()
            norm = progress.system.groups.norm(residual)
            if not progress.note(z, norm, progress.system.groups.norm(z)) or n == limit - 1:
                break
            z = search.next(progress.system, z, residual, norm)
            staying = progress.active.nonzero()[:, 0]
            rows = progress.leave()
            if rows is not None:
                z = z.index_select(0, rows)
                search.select(staying, rows)
        return progress.finish(self.name)


class _Search:
    """Of each problem: the point it stands at, its best point, and the step under trial.

    Barzilai and Borwein's steps are quick because residuals may grow in between. So they run free for `PATIENCE` points
    and up to `GROWTH` times the least residual; what finds no better point by then goes back to the best one and from
    there takes the step at which the residual would be least on its line if f were linear, and shorter ones, until it
    falls.
    """

    def __init__(self, fixed: float | None) -> None:
        self.fixed = fixed
        self.here: _Point | None = None

    def next(self, system: System, z: Tensor, residual: Tensor, norm: Tensor) -> Tensor:
        """The next point to evaluate, after z with its residual."""
        if self.fixed is not None:
            return z + self.fixed * residual
        new = _Point(z, residual, norm.double())
        if self.here is None:
            self.here = self.best = new
            self.eta, self.back = torch.ones_like(new.norm), torch.ones_like(new.norm)
            self.since, self.tries = torch.zeros_like(new.norm), torch.zeros_like(new.norm)
        else:
            self._judge(system.groups, self.here, new)
        return self.here.z + system.groups.spread(self.eta, z) * self.here.residual

    def _judge(self, groups: Groups, here: _Point, new: _Point) -> None:
        change = new.residual - here.residual
        curvature, along = groups.dot(change, here.residual).double(), groups.dot(change, change).double()
        spectral = -self.eta * here.norm.square() / curvature  # −⟨s, s⟩ / ⟨s, y⟩
        spectral = torch.where(spectral.isfinite() & (spectral != 0), spectral, 1.0)
        least = torch.nan_to_num(-curvature / along, -0.5, -0.5, -0.5)  # as a part of the step just tried
        self.back = torch.where(self.since == 0, self.eta * least.clamp(-LONGER, LONGER), self.back)
        better = new.norm < (1 - DECREASE) * self.best.norm  # false for NaN
        self.since = torch.where(better, 0.0, self.since + 1)
        patient = (self.tries == 0) & (self.since < PATIENCE) & (new.norm <= GROWTH * self.best.norm)
        free = better | patient
        again = torch.where(self.tries == 0, self.back, self.eta * least.clamp(-SHORTER, SHORTER))
        eta = torch.where(free, spectral, again)
        self.eta = eta.sign() * eta.abs().clamp(SMALLEST, LARGEST)
        self.tries = torch.where(better, 0.0, torch.where(free, self.tries, self.tries + 1))
        self.since = torch.where(free, self.since, 0.0)
        self.best = new.where(better, self.best, groups)
        self.here = new.where(free, self.best, groups)

    def select(self, problems: Tensor, rows: Tensor) -> None:
        """Keep some of the problems."""
        if self.here is None:
            return
        self.here, self.best = self.here.select(problems, rows), self.best.select(problems, rows)
        self.eta, self.back, self.since, self.tries = (
            part.index_select(0, problems) for part in (self.eta, self.back, self.since, self.tries)
        )


class _Point(NamedTuple):
    z: Tensor
    residual: Tensor
    norm: Tensor  # [B] float64, of the residual

    def where(self, chosen: Tensor, other: _Point, groups: Groups) -> _Point:
        """The point itself for the chosen problems, the other one for the rest."""
        rows = groups.spread(chosen, self.z)
        pairs = ((rows, 0), (rows, 1), (chosen, 2))
        return _Point(*(torch.where(mask, self[n], other[n]) for mask, n in pairs))

    def select(self, problems: Tensor, rows: Tensor) -> _Point:
        return _Point(self.z.index_select(0, rows), self.residual.index_select(0, rows), self.norm[problems])
