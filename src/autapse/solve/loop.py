"""The loop that all batched nonlinear solvers share: a solver writes an `Iteration`, `iterate` does the bookkeeping."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from autapse.solve.report import SolveReport
from autapse.solve.system import Groups, Linear

TINY = 1e-12  # the smallest norm that a residual is divided by
COMPACT = 0.9  # finished problems are dropped when at most this share of the batch is still active


class Batch(Protocol):
    """What the loop needs of a system."""

    @property
    def groups(self) -> Groups: ...

    def select(self, problems: Tensor) -> tuple[Self, Tensor]: ...


S = TypeVar("S", bound=Batch)  # the kind of system
R = TypeVar("R")  # a tensor, or a nested tuple of tensors that have a row per row of the unknowns
P = TypeVar("P")  # the same, with a row per problem
Parts = TypeVar("Parts")


class Evaluation(NamedTuple):
    """What an iteration finds at a point."""

    z: Tensor  # [n, ...] the point
    residual: Tensor  # [b] float64, the relative residual; infinite if it is not finite
    converged: Tensor  # [b] bool
    lost: Tensor  # [b] bool, problems that cannot recover from a value that is not finite
    cost: float | Tensor  # evaluations since the last point, for all problems or [b]


class Goal(NamedTuple):
    """The usual test of convergence: ‖F(z) − z‖ ≤ rtol·‖z‖ + atol."""

    rtol: float
    atol: float

    def judge(self, z: Tensor, residual: Tensor, size: Tensor, cost: float | Tensor = 1.0) -> Evaluation:
        """The evaluation of a point from the norms of its residual and of itself, [b] each."""
        finite = torch.isfinite(size)
        relative = torch.where(finite & torch.isfinite(residual), (residual / size.clamp_min(TINY)).double(), torch.inf)
        converged = finite & (residual.double() <= self.rtol * size.double() + self.atol)
        # A method can recover from a point that is too large, but not from NaN.
        return Evaluation(z, relative, converged, residual.isnan() | size.isnan(), cost)


class SolverState(NamedTuple, Generic[R, P]):
    """What an iteration remembers from one point to the next."""

    rows: R
    problems: P
    jacobian: Linear | None = None  # at the last point; None after problems were dropped, as it cannot be selected


def select(parts: Parts, index: Tensor) -> Parts:
    """Some rows of every tensor in a nested tuple; everything else in it is kept as it is."""
    result: Any = parts
    if isinstance(parts, Tensor):
        result = parts.index_select(0, index)
    elif isinstance(parts, tuple):
        chosen = [select(part, index) for part in parts]
        result = type(parts)(*chosen) if hasattr(parts, "_fields") else tuple(chosen)
    return result


class Iteration(ABC, Generic[S, R, P]):
    """The method of a solver: the first point, and the step from one point to the next, for a batch of problems."""

    counts_start: ClassVar[bool] = True
    """Whether the evaluation of the first point counts as an iteration; if not, only steps do."""
    always_advances: ClassVar[bool] = False
    """Whether every step is an advance: then the last point is the best one, and rounding cannot stall it."""
    copies: ClassVar[int] = 1
    """How many copies of each problem, side by side, are in the batch. If one converges, the others stop."""

    @abstractmethod
    def start(self, system: S, z: Tensor) -> tuple[Evaluation, SolverState[R, P]]:
        """Evaluate the first point."""

    @abstractmethod
    def step(self, system: S, state: SolverState[R, P], active: Tensor) -> tuple[Evaluation, SolverState[R, P]]:
        """Go to the next point and evaluate it. `active` [b] marks the problems that are not finished."""

    def rows_of_state(self, system: S, rows: Tensor) -> Tensor:
        """The rows of the state for some rows of the unknowns, if the state has fewer rows than these."""
        return rows


def iterate(name: str, iteration: Iteration[S, R, P], system: S, z: Tensor, limit: int) -> tuple[Tensor, SolveReport]:
    """Run an iteration from z until all problems are finished or `limit` iterations are done."""
    books = Bookkeeping(iteration, system, z)
    count = int(iteration.counts_start)
    if count <= limit:
        evaluation, state = iteration.start(system, z)
        going = books.record(evaluation, count)
        while going and count < limit:
            state = books.drop_finished(state)
            evaluation, state = iteration.step(books.system, state, books.active)
            going, count = books.record(evaluation), count + 1
    return books.finish(name)


class _Results(NamedTuple):
    """The results of each problem."""

    residual: Tensor  # float64
    converged: Tensor  # bool
    lost: Tensor  # bool
    iterations: Tensor  # int64
    evaluations: Tensor  # float64


class Bookkeeping(Generic[S, R, P]):
    """Which problems are active, the best point of each problem, and what it cost.

    The current batch has n rows and b problems. It shrinks when finished problems are dropped.
    """

    def __init__(self, iteration: Iteration[S, R, P], system: S, z: Tensor) -> None:
        self.iteration, self.system = iteration, system
        count, device = system.groups.count, z.device
        self.total = count
        self.problem_index = torch.arange(count, device=device)  # [b] where the current problems are in the full batch
        self.row_index: Tensor | None = None  # [n] where the current rows are; None if nothing was dropped
        self.active = torch.ones(count, dtype=torch.bool, device=device)  # [b]
        self.active_index = self.problem_index  # [a] the active problems of the current batch
        self.best = z  # [n, ...] the best point of each current problem
        self.solution = z  # [N, ...] the best points of the full batch, written when problems are dropped
        self.current = _Results(
            torch.full((count,), torch.inf, dtype=torch.float64, device=device),
            ~self.active,
            ~self.active,
            torch.zeros(count, dtype=torch.long, device=device),
            torch.zeros(count, dtype=torch.float64, device=device),
        )  # [b] each
        self.results = self.current  # [B] each, written when problems are dropped

    def record(self, evaluation: Evaluation, iterations: int = 1) -> bool:
        """Note an evaluation, and count `iterations`. Returns whether any problem is still active."""
        z, residual, converged, lost, cost = evaluation
        converged, before = self.active & converged, self.current
        lost = self.active & lost & ~converged
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
            before.evaluations + cost * self.active.double(),
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

    def drop_finished(self, state: SolverState[R, P]) -> SolverState[R, P]:
        """Drop the finished problems if there are enough of them. Returns the state of the others."""
        staying = self.active_index
        if len(staying) > COMPACT * len(self.active):
            return state
        self._write()
        before = self.system
        self.system, rows = before.select(staying)
        self.row_index = rows if self.row_index is None else self.row_index.index_select(0, rows)
        self.best = self.best.index_select(0, rows)
        self.problem_index, self.active, self.current = select((self.problem_index, self.active, self.current), staying)
        own_rows = self.iteration.rows_of_state(before, rows)
        return SolverState(select(state.rows, own_rows), select(state.problems, staying))

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
