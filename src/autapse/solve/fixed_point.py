"""FixedPoint and Anderson: solvers that need F alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.acceleration import iterate
from autapse.solve.base import Solver
from autapse.solve.report import SolveReport
from autapse.solve.system import Point, Relaxing, System


@dataclass(frozen=True, kw_only=True)
class FixedPoint(Solver):
    """z ← z + damping·(F(z) − z), up to 200 iterations."""

    default_iterations: ClassVar[int] = 200

    damping: float = 1.0
    """Part of each step that is taken."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("damping", self.damping, above=0.0, high=1.0)

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        return _run(self, "fixed point", system, start, rtol)


@dataclass(frozen=True, kw_only=True)
class Anderson(Solver):
    """FixedPoint, with each problem's steps extrapolated from its last few, up to 200 iterations.

    Guarded: an accelerated step that leaves more than `guard` of the residual sends its problem back to 4 plain steps,
    then 8, 16, …, and acceleration begins only below the residual `threshold`.
    """

    default_iterations: ClassVar[int] = 200

    damping: float = 1.0
    """Part of each step that is taken."""
    window: int = 5
    """Steps that are remembered."""
    threshold: float = float("inf")
    """Relative residual below which steps are accelerated."""
    guard: float = 0.9
    """Part of the residual that an accelerated step may leave."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("damping", self.damping, above=0.0, high=1.0)
        _check_acceleration(self.window, self.threshold, self.guard)

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        return _run(self, "anderson", system, start, rtol, self.window, self.threshold, self.guard)


@dataclass(frozen=True, kw_only=True)
class Tridiagonal(Solver):
    """Quasi-Newton on a line: only the elementwise couplings to neighbours are kept of the Jacobian.

    Every second position is computed exactly from the others, the residual is formed on these, and I − J, which is then
    one tridiagonal system per channel and problem, is solved by elimination: one F per iteration and no matrix product
    beyond. Accelerated as `Anderson` is, of which the guard bears small rises of the residual: where some modes of J
    exceed 1, backing off at the first rise sends a problem back to an iteration that cycles. Up to max(30, n/2)
    iterations for n positions.
    """

    window: int = 8
    """Steps that are remembered for acceleration; 0 is the plain iteration."""
    threshold: float = 0.3
    """Relative residual below which steps are accelerated."""
    guard: float = 1.2
    """How many times the residual an accelerated step may leave."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_acceleration(self.window, self.threshold, self.guard)

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        whole = system.zero() if start is None else start
        limit = self._limit(max(30, system.extent // 2))
        settings = Relaxing(self._tolerance(rtol), self.atol, limit, self.window, self.threshold, self.guard)
        found = system.relaxed(whole, settings)
        if found is not None:
            return found
        return iterate(
            "tridiagonal",
            system,
            system.free(whole),
            whole,
            lambda system, z: system.relax(z),
            lambda system: system.free_groups,
            (self._tolerance(rtol), self.atol),
            limit,
            self.window,
            self.threshold,
            self.guard,
            lambda system, rows: system.select_free(rows),
        )


def _check_acceleration(window: int, threshold: float, guard: float) -> None:
    checks.integer("window", window, minimum=0)
    if threshold != float("inf"):
        checks.number("threshold", threshold, above=0.0)
    if guard != float("inf"):
        checks.number("guard", guard, above=0.0)


def _run(
    solver: FixedPoint | Anderson,
    name: str,
    system: System,
    start: Tensor | None,
    rtol: float | None,
    window: int = 0,
    threshold: float = float("inf"),
    guard: float = float("inf"),
) -> tuple[Tensor, SolveReport]:
    """The damped iteration on all rows, with a memory of `window` steps."""

    def evaluate(system: System, z: Tensor) -> Point:
        return Point(z, system.evaluate(z) - z, lambda residual: solver.damping * residual)

    z = system.zero() if start is None else start
    tolerances = (solver._tolerance(rtol), solver.atol)
    groups = lambda system: system.groups  # noqa: E731
    return iterate(name, system, z, z, evaluate, groups, tolerances, solver._limit(), window, threshold, guard)
