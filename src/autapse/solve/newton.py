"""Newton: the whole Jacobian, by a linear solver that is no more exact than the step deserves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import Progress, Solver
from autapse.solve.krylov import GMRES, LinearReport, LinearSolver
from autapse.solve.operator import Resolvent
from autapse.solve.report import SolveReport
from autapse.solve.system import Linear, System

FIRST_FORCING = 0.3  # of the residual, what the first linear solve may leave
MOST_FORCING = 0.5  # what any may leave
SHORTER = 0.4  # a step that does not help is tried again at this part of its length,
TRIES = 6  # so often at most,
DECREASE = 1e-4  # where to help is to decrease the residual by this part of the step length


@dataclass(frozen=True, kw_only=True)
class Newton(Solver):
    """z ← z + d with (I − J)·d = F(z) − z, solved inexactly, up to 12 iterations.

    Each linear solve may leave η = 0.9·(r/r₋)² of its right side (Eisenstat and Walker's second choice), r and r₋ being
    the residuals of this and the last point: loose far away, tighter as Newton's convergence sets in, and never tighter
    than half of what the tolerance asks. An `rtol` of the linear solver's own replaces that.
    """

    default_iterations: ClassVar[int] = 12

    linear: LinearSolver = field(default_factory=GMRES)
    """What solves for a step: GMRES(), BiCGStab() or BlockTridiagonal()."""
    line_search: bool = False
    """Shorten steps that do not decrease the residual: safer far from a solution, but may stall near a fold."""
    precondition: bool = True
    """Use the system's approximate inverse of I − J, where it has one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.linear, LinearSolver):
            checks.fail("linear", "be a linear solver", self.linear, "As in Newton(linear=GMRES()).", checks.KindError)
        checks.boolean("line_search", self.line_search)
        checks.boolean("precondition", self.precondition)

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        z = system.zero() if start is None else start
        progress = Progress(system, z, self._tolerance(rtol), self.atol)
        limit = self._limit()
        descend(progress, z, limit, self.linear, self.precondition, self.line_search)
        return progress.finish(self.name)


def descend(
    progress: Progress,
    z: Tensor,
    limit: int,
    linear: LinearSolver,
    preconditioned: bool = True,
    line_search: bool = False,
    seen: Callable[[Progress], None] = lambda progress: None,  # after each point, before those that are done leave
    solved: Callable[[LinearReport], None] = lambda report: None,  # after each linear solve
) -> None:
    """Newton's iteration on what `progress` has at work: `limit` steps at most."""
    forcing = _Forcing(progress)
    value, jacobian = progress.system.linearize(z)
    progress.charge(1.0)
    for n in range(limit + 1):
        norm = progress.system.groups.norm(value - z)
        progress.note(z, norm, progress.system.groups.norm(z))
        seen(progress)
        if n == limit or not bool(progress.active.any()):
            return
        staying, rows = progress.active.nonzero()[:, 0], progress.leave()
        if rows is not None:
            # Not charged: what a problem costs shall not depend on when the others of its batch are done.
            z = z.index_select(0, rows)
            value, jacobian = progress.system.linearize(z)
            norm = norm.index_select(0, staying)
            forcing.select(staying)
        eta = forcing.next(norm, progress.system.groups.norm(z))
        operator = Resolvent(jacobian, preconditioned=preconditioned)
        d, report = linear.solve(operator, value - z, eta, progress.active)
        solved(report)
        progress.charge(report.evaluations)
        progress.step()
        z, value, jacobian = _advance(progress, z, d, norm, TRIES if line_search else 0)


def _advance(progress: Progress, z: Tensor, d: Tensor, norm: Tensor, tries: int) -> tuple[Tensor, Tensor, Linear]:
    """The next point, F there and its derivative; `norm` is that of the residual at z."""
    groups = progress.system.groups
    length = torch.ones_like(norm)
    trying = progress.active
    while True:
        point = z + groups.spread(length, d) * d
        value, jacobian = progress.system.linearize(point)
        progress.charge(trying.double())
        if tries == 0:
            return point, value, jacobian
        found, size = groups.norm(value - point), groups.norm(point)
        fine = (found < (1 - DECREASE * length) * norm) | progress.reached(found, size)
        trying = trying & ~fine
        if not bool(trying.any()):
            return point, value, jacobian
        length = torch.where(trying, SHORTER * length, length)
        tries -= 1


class _Forcing:
    """What each problem's next linear solve may leave of its right side."""

    def __init__(self, progress: Progress) -> None:
        self.rtol, self.atol = progress.rtol, progress.atol
        self.eta: Tensor | None = None
        self.before: Tensor | None = None

    def next(self, norm: Tensor, size: Tensor) -> Tensor:  # [b] -> [b]
        norm, size = norm.double(), size.double()
        if self.eta is None or self.before is None:
            eta = torch.full_like(norm, FIRST_FORCING)
        else:
            eta = 0.9 * (norm / self.before) ** 2
            # A lucky step shall not ask for a tight solve at once.
            slow = 0.9 * self.eta**2
            eta = torch.where(slow > 0.1, torch.maximum(eta, slow), eta)
        least = 0.5 * (self.rtol * size + self.atol) / norm
        self.eta = torch.maximum(eta, least).nan_to_num(nan=MOST_FORCING).clamp_max(MOST_FORCING)
        self.before = norm
        return self.eta

    def select(self, problems: Tensor) -> None:
        if self.eta is not None and self.before is not None:
            self.eta, self.before = self.eta.index_select(0, problems), self.before.index_select(0, problems)
