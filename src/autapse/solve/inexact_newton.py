"""InexactNewton: the ERNN paper's method, which needs F alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import Progress, Solver
from autapse.solve.report import SolveReport
from autapse.solve.system import System

MEMORY = 5  # residuals that the next one is compared with: Barzilai and Borwein's steps do not fall at every one
DECREASE = 1e-4  # of a step's own size, that the residual has to lose
SHRINK = 0.25  # of a step, once neither it nor its opposite would do
SMALLEST, LARGEST = 1e-10, 1e10  # of |η|


@dataclass(frozen=True, kw_only=True)
class InexactNewton(Solver):
    """z ← z + η·(F(z) − z), η a number per problem and iteration; up to 300 evaluations.

    ERNN paper, section 3.2, equation 7 with f(z) = F(z) − z: a Newton step that leaves the error (I + η·f′)·f, and so
    converges locally where ‖I + η·f′‖ < 1 (its Theorem 1). The paper learns η with the network; `eta` is such a number.
    Without it η is Barzilai and Borwein's, −⟨s, s⟩ / ⟨s, y⟩ for the last step s and the change y of f. That may be
    negative, so points that F moves away from are found too. A step has to leave less than the greatest of the last five
    residuals; else its opposite is tried, then shorter ones (the derivative-free search of La Cruz, Martínez and Raydan,
    2006). Where the theorem's condition holds for some η, short steps of its sign lower the residual, so it converges.
    """

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
        limit = 300 if self.max_iterations is None else self.max_iterations
        search = _Search(self.eta)
        for n in range(limit):
            residual = progress.system.evaluate(z) - z
            progress.charge(1.0)
            progress.step()
            norm = progress.system.groups.norm(residual)
            if not progress.note(z, norm, progress.system.groups.norm(z)) or n == limit - 1:
                break
            z = search.next(progress.system, z, residual, norm, n)
            staying = progress.active.nonzero()[:, 0]
            rows = progress.leave()
            if rows is not None:
                z = z.index_select(0, rows)
                search.select(staying, rows)
        return progress.finish(self.name)


class _Search:
    """Of each problem: the point it stands at, the step under trial, and the residuals of its last points."""

    def __init__(self, fixed: float | None) -> None:
        self.fixed = fixed
        self.z: Tensor | None = None

    def next(self, system: System, z: Tensor, residual: Tensor, norm: Tensor, n: int) -> Tensor:
        """The next point to evaluate, after z with its residual."""
        if self.fixed is not None:
            return z + self.fixed * residual
        if self.z is None:
            self._begin(z, residual, norm.double())
        else:
            self._judge(system, z, residual, norm.double(), n)
        assert self.z is not None
        return self.z + system.groups.spread(self.eta, self.z) * self.residual

    def _begin(self, z: Tensor, residual: Tensor, norm: Tensor) -> None:
        self.z, self.residual, self.norm, self.first = z, residual, norm, norm
        self.last = norm[:, None].repeat(1, MEMORY)
        self.eta, self.tries = torch.ones_like(norm), torch.zeros_like(norm)

    def _judge(self, system: System, z: Tensor, residual: Tensor, norm: Tensor, n: int) -> None:
        groups = system.groups
        allowed = self.last.amax(1).square() + (self.first / (1 + n)).square()
        good = norm.square() <= allowed - DECREASE * (self.eta * self.norm).square()  # false for NaN
        change = residual - self.residual
        curvature = groups.dot(change, self.residual).double()  # ⟨s, y⟩ / η
        spectral = -self.eta * self.norm.square() / curvature
        spectral = torch.where(spectral.isfinite() & (spectral != 0), spectral, 1.0)
        spectral = spectral.sign() * spectral.abs().clamp(SMALLEST, LARGEST)
        # Rejected: the opposite step after the first trial of a length, a shorter one after the second.
        other = torch.where(self.tries % 2 == 0, -self.eta, -SHRINK * self.eta)
        self.eta = torch.where(good, spectral, other)
        self.tries = torch.where(good, 0.0, self.tries + 1)
        rows = groups.spread(good, z)
        self.z, self.residual = torch.where(rows, z, self.z), torch.where(rows, residual, self.residual)
        self.norm = torch.where(good, norm, self.norm)
        self.last = torch.where(good[:, None], torch.cat([self.last[:, 1:], norm[:, None]], 1), self.last)

    def select(self, problems: Tensor, rows: Tensor) -> None:
        """Keep some of the problems."""
        if self.z is None:
            return
        self.z, self.residual = self.z.index_select(0, rows), self.residual.index_select(0, rows)
        self.norm, self.first, self.last, self.eta, self.tries = (
            part.index_select(0, problems) for part in (self.norm, self.first, self.last, self.eta, self.tries)
        )
