"""Accelerated: the iteration z ← z + C·(F(z) − z) with guarded Anderson acceleration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import IterativeSolver
from autapse.solve.loop import Iteration, Visit
from autapse.solve.system import Groups, Point, System

REGULARISATION = 1e-10  # of the least-squares problem, relative to its size: the steps may be nearly dependent
FIRST_REST = 4.0  # plain steps after a bad accelerated step; doubles each time, so the method tends to the plain one


class History(NamedTuple):
    """The last steps of the rows and the changes of their residuals, oldest first."""

    last: tuple[Tensor, Tensor] | None = None  # the last point and its residual
    steps: tuple[Tensor, ...] = ()
    changes: tuple[Tensor, ...] = ()

    def add(self, z: Tensor, residual: Tensor, window: int) -> History:
        """The history with one more point, of `window` steps at most."""
        if self.last is None:
            return History((z, residual))
        steps, changes = (*self.steps, z - self.last[0]), (*self.changes, residual - self.last[1])
        return History((z, residual), steps[-window:], changes[-window:])


class Guard(NamedTuple):
    """Whether each problem may be accelerated now, [b] float64 each."""

    rest: Tensor  # plain steps that the problem must still take
    penalty: Tensor  # plain steps after the next bad step
    accelerated: Tensor  # the relative residual before the last step if that was accelerated, else infinite

    @staticmethod
    def new(count: int, device: torch.device) -> Guard:
        zero = torch.zeros(count, dtype=torch.float64, device=device)
        return Guard(zero + 2, zero + FIRST_REST, zero + torch.inf)  # the first step has no history and is plain

    def update(self, residual: Tensor, limit: float) -> Guard:
        """An accelerated step that leaves more than `limit` of the residual is followed by plain steps."""
        bad = residual > limit * self.accelerated
        rest = torch.where(bad, self.penalty, (self.rest - 1).clamp_min(0))
        return Guard(rest, torch.where(bad, 2 * self.penalty, self.penalty), self.accelerated)


def _extrapolate(groups: Groups, z: Tensor, residual: Tensor, history: History, use: Tensor) -> tuple[Tensor, Tensor]:
    """The combination of the last points with the smallest residual, if F were linear."""
    changes = torch.stack([c.flatten(1) for c in history.changes], 1)  # [n, m, k]
    both = torch.cat([changes, residual.flatten(1).unsqueeze(1)], 1)
    products = groups.sum(torch.bmm(changes, both.transpose(1, 2))).double()  # [b, m, m + 1]
    gram, right = products[..., :-1], products[..., -1:]
    size = gram.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-300)
    gram = gram + REGULARISATION * size[:, None, None] * torch.eye(gram.shape[1], device=gram.device).double()
    weights = torch.nan_to_num(torch.linalg.solve_ex(gram, right)[0], 0.0, 0.0, 0.0) * use[:, None, None]
    rows = groups.each_row(weights).to(z.dtype).transpose(1, 2)  # [n, 1, m]
    steps = torch.stack([s.flatten(1) for s in history.steps], 1)
    return z - torch.bmm(rows, steps).view_as(z), residual - torch.bmm(rows, changes).view_as(z)


class AcceleratedSolver(IterativeSolver):
    """A solver with the settings of the acceleration among its fields.

    Args:
        window: how many steps are remembered for the acceleration; 0 is the plain iteration.
        threshold: relative residual below which steps are accelerated.
        guard: the largest factor of the residual after an accelerated step.
    """

    window: int
    threshold: float
    guard: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("window", self.window, minimum=0)
        for name in ("threshold", "guard"):
            if getattr(self, name) != torch.inf:
                checks.number(name, getattr(self, name), above=0.0)

    @property
    def _acceleration(self) -> tuple[int, float, float]:
        return self.window, self.threshold, self.guard


class Correction(NamedTuple):
    """`Point.correct` for the rows that are left. Rows that were dropped count as zero."""

    correct: Callable[[Tensor], Tensor]
    left: Tensor  # [n] the index at the point of each row that is left
    total: int  # rows of the point

    def __call__(self, residual: Tensor) -> Tensor:
        if len(residual) == self.total:
            return self.correct(residual)
        full = residual.new_zeros(self.total, *residual.shape[1:]).index_copy_(0, self.left, residual)
        return self.correct(full).index_select(0, self.left)


class Rows(NamedTuple):
    """What `Accelerated` remembers of each row that it works on."""

    z: Tensor
    residual: Tensor
    correction: Correction
    history: History


@dataclass(frozen=True)
class Accelerated(Iteration):
    """z ← z + C·(F(z) − z), with steps that are extrapolated from the last ones."""

    window: int = 0  # steps that are remembered; 0: no acceleration
    threshold: float = torch.inf  # relative residual below which steps are accelerated
    guard: float = torch.inf  # the largest factor of the residual after an accelerated step

    @abstractmethod
    def point(self, system: System, z: Tensor) -> Point:
        """One evaluation of F."""

    def groups(self, system: System) -> Groups:
        """The groups of the rows that it works on."""
        return system.groups

    def start(self, system: System, z: Tensor) -> Visit:
        return self._visit(system, z, History(), Guard.new(system.groups.count, z.device))

    def step(self, system: System, visit: Visit, active: Tensor) -> Visit:
        rows, guard = visit.rows, visit.problems
        z, residual, history = rows.z, rows.residual, rows.history
        if self.window:
            history, guard = history.add(z, residual, self.window), guard.update(visit.residual, self.guard)
            use = (visit.residual < self.threshold) & (guard.rest == 0)
            guard = guard._replace(accelerated=torch.where(use, visit.residual, torch.inf))
            if history.steps and bool(use.any()):
                z, residual = _extrapolate(self.groups(system), z, residual, history, use)
        return self._visit(system, z + rows.correction(residual), history, guard)

    def _visit(self, system: System, z: Tensor, history: History, guard: Guard) -> Visit:
        point = self.point(system, z)
        norm, size = self.groups(system).norm(point.residual), system.groups.norm(point.z)
        correction = Correction(point.correct, torch.arange(len(z), device=z.device), len(z))
        return self.goal.judge(point.z, norm, size, rows=Rows(z, point.residual, correction, history), problems=guard)


@dataclass(frozen=True)
class Damped(Accelerated):
    """z ← z + damping·(F(z) − z)."""

    damping: float = 1.0

    def point(self, system: System, z: Tensor) -> Point:
        return Point(z, system.evaluate(z) - z, lambda residual: self.damping * residual)
