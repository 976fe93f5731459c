"""InexactNewton: the method of the ERNN paper, which needs only F."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.acceleration import Damped
from autapse.solve.base import IterativeSolver
from autapse.solve.loop import Goal, Iteration, Visit
from autapse.solve.system import Groups, System

PATIENCE = 20  # spectral steps without a better point, after which a problem returns to its best point
GROWTH = 1e3  # growth of the residual, relative to the best point, after which it returns at once
DECREASE = 1e-4  # fraction of the residual that a better point must have lost
LONGEST = 10.0  # the first backtracking step is at most this many times as long as the step from the best point
SHORTEST = 0.5  # each further one is at most this fraction of the step before
ETA_RANGE = (1e-10, 1e10)  # of |η|


@dataclass(frozen=True, kw_only=True)
class InexactNewton(IterativeSolver):
    """z ← z + η·(F(z) − z) with a number η per problem and iteration, up to 300 evaluations.

    ERNN paper, section 3.2, equation 7 with f(z) = F(z) − z. A Newton step that leaves the error (I + η·f′)·f converges
    locally if ‖I + η·f′‖ < 1 (Theorem 1 of the paper). The paper learns η with the network; `eta` is such a number.

    By default η is the step length of Barzilai and Borwein, −⟨s, s⟩ / ⟨s, y⟩, with the last step s and the change y of
    f. It may be negative, so the method also finds points that F moves away from. These spectral steps are fast because
    the residual may grow for a while. If it does not fall again, the problem returns to its best point and takes
    backtracking steps, which get shorter until the residual falls. If the condition of the theorem holds for some η,
    short steps with the sign of η reduce the residual, so the method converges.

    Args:
        eta: η of every iteration, with no safeguard. None: η is chosen as described above.

    >>> repelling = autapse.solve.Equations(lambda z, b: 3 * z + b, torch.full((1, 1), -2.0))
    >>> z, report = autapse.solve.InexactNewton().solve(repelling)
    >>> float(z), report.finished_by
    (1.0, ('inexact newton',))
    """

    default_iterations: ClassVar[int] = 300

    eta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta is not None:
            checks.number("eta", self.eta)

    def _iteration(self, goal: Goal) -> Iteration:
        return Spectral(goal) if self.eta is None else Damped(goal, damping=self.eta)


class _Point(NamedTuple):
    z: Tensor
    residual: Tensor

    def where(self, chosen: Tensor, other: _Point) -> _Point:  # [n, 1, ...] bool
        """The point itself in the chosen rows, the other point elsewhere."""
        return _Point(torch.where(chosen, self.z, other.z), torch.where(chosen, self.residual, other.residual))


class _Points(NamedTuple):
    """The points of each row."""

    new: _Point  # the point that was visited last
    here: _Point | None  # the point from which the last step went; None before the first step
    best: _Point


class _Search(NamedTuple):
    """The search of each problem, [b] float64 each. Its phase is spectral if `tries` is 0, and else backtracking."""

    new: Tensor  # norms of the residuals of the three points
    here: Tensor
    best: Tensor
    eta: Tensor  # the step that led to the new point
    fallback: Tensor  # the first backtracking step
    since: Tensor  # spectral steps since the best point
    tries: Tensor  # backtracking steps since the best point


class Spectral(Iteration):
    """Spectral steps, and backtracking if they do not help."""

    def start(self, system: System, z: Tensor) -> Visit:
        return self._visit(system, z, None, None, None)

    def step(self, system: System, visit: Visit, active: Tensor) -> Visit:
        here, best, search = _judge(system.groups, visit.rows, visit.problems)
        z = here.z + system.groups.spread(search.eta, here.z) * here.residual
        return self._visit(system, z, here, best, search)

    def _visit(
        self, system: System, z: Tensor, here: _Point | None, best: _Point | None, search: _Search | None
    ) -> Visit:
        new = _Point(z, system.evaluate(z) - z)
        norm, size = system.groups.norm(new.residual), system.groups.norm(z)
        wide = norm.double()
        one, zero = torch.ones_like(wide), torch.zeros_like(wide)
        search = search._replace(new=wide) if search else _Search(wide, wide, wide, one, one, zero, zero)
        return self.goal.judge(z, norm, size, rows=_Points(new, here, best or new), problems=search)


def _judge(groups: Groups, points: _Points, search: _Search) -> tuple[_Point, _Point, _Search]:
    """The point where the next step starts, the best point, and the search with the next step."""
    new, here, best = points
    if here is None:
        return new, best, search
    change = new.residual - here.residual
    product, square = groups.dot(change, here.residual).double(), groups.dot(change, change).double()
    # If f were linear, the residual would be smallest after this fraction of the last step.
    optimum = torch.nan_to_num(-product / square, -0.5, -0.5, -0.5)
    left_best = search.since == 0  # the last step started at the best point
    fallback = torch.where(left_best, search.eta * optimum.clamp(-LONGEST, LONGEST), search.fallback)

    better = search.new < (1 - DECREASE) * search.best  # false for NaN
    since = torch.where(better, 0.0, search.since + 1)
    patient = (search.tries == 0) & (since < PATIENCE) & (search.new <= GROWTH * search.best)
    backtracking = ~(better | patient)  # the phase of the next step

    best = new.where(groups.spread(better, new.z), best)
    best_norm = torch.where(better, search.new, search.best)
    eta = torch.where(backtracking, _backtracking_step(search, fallback, optimum), _spectral_step(search, product))
    next_search = _Search(
        new=search.new,
        here=torch.where(backtracking, best_norm, search.new),
        best=best_norm,
        eta=eta.sign() * eta.abs().clamp(*ETA_RANGE),
        fallback=fallback,
        since=torch.where(backtracking, 0.0, since),
        tries=torch.where(backtracking, search.tries + 1, 0.0),
    )
    return best.where(groups.spread(backtracking, new.z), new), best, next_search


def _spectral_step(search: _Search, product: Tensor) -> Tensor:
    """−⟨s, s⟩ / ⟨s, y⟩ of the last step s = η·f; 1 if that is zero or not finite."""
    eta = -search.eta * search.here.square() / product
    return torch.where(eta.isfinite() & (eta != 0), eta, 1.0)


def _backtracking_step(search: _Search, fallback: Tensor, optimum: Tensor) -> Tensor:
    """The fallback first, then shorter and shorter steps."""
    return torch.where(search.tries == 0, fallback, search.eta * optimum.clamp(-SHORTEST, SHORTEST))
