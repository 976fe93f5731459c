"""The loop that all batched nonlinear solvers share: a solver writes an `Iteration`, `iterate` does the bookkeeping."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse.solve.report import SolveReport
from autapse.solve.system import Groups, Linear

TINY = 1e-12  # the smallest norm that a residual is divided by
COMPACT = 0.9  # finished problems are dropped when at most this share of the batch is still active


class Visit(NamedTuple):
    """A point that an iteration has visited, and what the next step needs to know."""

    z: Tensor  # [n, ...] the point
    residual: Tensor  # [b] float64, the relative residual; infinite if it is not finite
    converged: Tensor  # [b] bool
    lost: Tensor  # [b] bool, problems that cannot recover from a value that is not finite
    cost: float | Tensor  # evaluations since the last point, for all problems or [b]
    rows: Any = ()  # memory of the rows: a tensor, or a nested tuple of tensors with a row per row of z
    problems: Any = ()  # memory of the problems: the same, with a row per problem
    jacobian: Linear | None = None  # at z; None after problems were dropped, as it cannot be selected


def select(parts: Any, index: Tensor) -> Any:
    """Some rows of every tensor in a nested tuple; everything else in it is kept as it is."""
    if isinstance(parts, Tensor):
        return parts.index_select(0, index)
    if not isinstance(parts, tuple):
        return parts
    chosen = [select(part, index) for part in parts]
    return type(parts)(*chosen) if hasattr(parts, "_fields") else tuple(chosen)


class Goal(NamedTuple):
    """The usual test of convergence: ‖F(z) − z‖ ≤ rtol·‖z‖ + atol."""

    rtol: float
    atol: float

    def judge(self, z: Tensor, norm: Tensor, size: Tensor, cost: float | Tensor = 1.0, **memory: Any) -> Visit:
        """The visit of a point, from the norms of its residual and of itself, [b] each."""
        finite = torch.isfinite(size)
        relative = torch.where(finite & torch.isfinite(norm), (norm / size.clamp_min(TINY)).double(), torch.inf)
        converged = finite & (norm.double() <= self.rtol * size.double() + self.atol)
        # A method can recover from a point that is too large, but not from NaN.
        return Visit(z, relative, converged, norm.isnan() | size.isnan(), cost, **memory)


@dataclass(frozen=True)
class Iteration(ABC):
    """The method of a solver: the first point, and the step from one point to the next, for a batch of problems.

    A system is a `System`, or anything else with its `groups` and `select`.
    """

    counts_start: ClassVar[bool] = True
    """Whether the visit of the first point counts as an iteration; if not, only steps do."""
    always_advances: ClassVar[bool] = False
    """Whether every step is an advance: then the last point is the best one, and rounding cannot stall it."""
    copies: ClassVar[int] = 1
    """How many copies of each problem, side by side, are in the batch. If one converges, the others stop."""

    goal: Goal

    @abstractmethod
    def start(self, system: Any, z: Tensor) -> Visit:
        """Visit the first point."""

    @abstractmethod
    def step(self, system: Any, visit: Visit, active: Tensor) -> Visit:
        """Visit the next point. `active` [b] marks the problems that are not finished."""

    def memory_rows(self, system: Any, rows: Tensor) -> Tensor:
        """The index in `Visit.rows` of some rows of z, for an iteration that works on fewer rows than z has."""
        return rows


def iterate(name: str, iteration: Iteration, system: Any, z: Tensor, limit: int) -> tuple[Tensor, SolveReport]:
    """Run an iteration from z until all problems are finished or `limit` iterations are done."""
    books = Bookkeeping(iteration, system, z)
    count = int(iteration.counts_start)
    if count <= limit:
        visit = iteration.start(system, z)
        going = books.record(visit, count)
        while going and count < limit:
            visit = books.drop_finished(visit)
            visit = iteration.step(books.system, visit, books.active)
            going, count = books.record(visit), count + 1
    return books.finish(name)


class _Results(NamedTuple):
    """The results of each problem."""

    residual: Tensor  # float64
    converged: Tensor  # bool
    lost: Tensor  # bool
    iterations: Tensor  # int64
    evaluations: Tensor  # float64


class Bookkeeping:
    """Which problems are active, the best point of each problem, and what it cost.

    The current batch has n rows and b problems. It shrinks when finished problems are dropped.
    """

    def __init__(self, iteration: Iteration, system: Any, z: Tensor) -> None:
        self.iteration, self.system, self.total = iteration, system, system.groups.count
        zero = torch.zeros(self.total, dtype=torch.float64, device=z.device)
        self.active = zero == 0  # [b]
        self.problem_index = torch.arange(self.total, device=z.device)  # [b] index in the full batch
        self.row_index: Tensor | None = None  # [n] index in the full batch; None: all rows
        self.active_index = self.problem_index  # [a] index of each active problem in the current batch
        self.best = z  # [n, ...] the best point of each current problem
        self.current = _Results(zero + torch.inf, ~self.active, ~self.active, zero.long(), zero)  # [b] each
        self.solution, self.results = z, self.current  # of the full batch, written when problems are dropped

    def record(self, visit: Visit, iterations: int = 1) -> bool:
        """Note a visit, and count `iterations`. Returns whether any problem is still active."""
        z, residual, before = visit.z, visit.residual, self.current
        converged = self.active & visit.converged
        lost = self.active & visit.lost & ~converged
        if self.iteration.always_advances:
            better, everywhere = self.active, len(self.active_index) == len(self.active)
        else:
            better = converged | (self.active & (residual < before.residual))
            everywhere = bool(better.all())
        self.best = z if everywhere else torch.where(self.system.groups.spread(better, z), z, self.best)
        self.current = _Results(
            torch.where(better, residual, before.residual),
            before.converged | converged,
            before.lost | lost,
            before.iterations + iterations * self.active,
            before.evaluations + visit.cost * self.active.double(),
        )
        self.active = self.active & ~(self._any_copy(converged) | lost)
        self.active_index = self.active.nonzero()[:, 0]
        return len(self.active_index) > 0

    def _any_copy(self, converged: Tensor) -> Tensor:  # [b] -> [b]
        """Whether a problem or another copy of it has converged."""
        if self.iteration.copies == 1:
            return converged
        copies = Groups(self.total, self.problem_index // self.iteration.copies)
        return copies.each_row(copies.sum(converged.long())) > 0

    def drop_finished(self, visit: Visit) -> Visit:
        """Drop the finished problems if there are enough of them. Returns the visit of the others."""
        staying = self.active_index
        if len(staying) > COMPACT * len(self.active):
            return visit
        self._write()
        before = self.system
        self.system, rows = before.select(staying)
        self.row_index = rows if self.row_index is None else self.row_index.index_select(0, rows)
        self.best = self.best.index_select(0, rows)
        self.problem_index, self.active, self.current = select((self.problem_index, self.active, self.current), staying)
        z, residual, converged, lost, _, memory, problems, _ = visit
        z, memory = select(z, rows), select(memory, self.iteration.memory_rows(before, rows))
        residual, converged, lost, problems = select((residual, converged, lost, problems), staying)
        return Visit(z, residual, converged, lost, 0.0, memory, problems)

    def finish(self, name: str) -> tuple[Tensor, SolveReport]:
        """The solutions, and the report."""
        self._write()
        eps = 0.0 if self.iteration.always_advances else torch.finfo(self.solution.dtype).eps
        residual, converged, lost, iterations, evaluations = self.results
        return self.solution, SolveReport.make(converged, residual, iterations, evaluations, name, eps, lost)

    def _write(self) -> None:
        """Copy the results of the current batch to those of the full batch."""
        if self.row_index is None:
            self.solution, self.results = self.best.clone(), self.current
            return
        self.solution.index_copy_(0, self.row_index, self.best)
        for every, part in zip(self.results, self.current, strict=True):
            every.index_copy_(0, self.problem_index, part)
