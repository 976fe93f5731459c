"""Tridiagonal: a quasi-Newton method for systems on a line."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse.solve.acceleration import Accelerated, AcceleratedSolver
from autapse.solve.loop import Goal, Visit
from autapse.solve.report import SolveReport
from autapse.solve.system import Groups, Point, Relaxing, System


@dataclass(frozen=True, kw_only=True)
class Tridiagonal(AcceleratedSolver):
    """Quasi-Newton method on a line, which keeps only the elementwise couplings between neighbours of the Jacobian.

    The method computes every second position exactly from the others, and forms the residual at the others. I − J is
    then one tridiagonal system per channel and problem, which is solved by elimination. So an iteration costs one
    evaluation of F and no other matrix product. Steps are accelerated as in `Anderson`, with a guard that tolerates
    small increases of the residual: if some modes of J exceed 1, a strict guard sends a problem back to a plain
    iteration that cycles. By default up to max(30, n/2) iterations for n positions.

    >>> layer = autapse.ImplicitGRU(3, 4, solver=autapse.solve.Tridiagonal(window=4))
    >>> output, h_n = layer(torch.randn(5, 2, 3))
    >>> layer.reports[0].all_converged
    True
    """

    window: int = 8
    threshold: float = 0.3
    guard: float = 1.2

    def _iteration(self, goal: Goal) -> Relaxed:
        return Relaxed(goal, *self._acceleration)

    def _limit_for(self, system: System) -> int:
        return self._limit(max(30, system.extent // 2))

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        settings = Relaxing(self._tolerance(rtol), self.atol, self._limit_for(system), *self._acceleration)
        return system.relaxed(start, settings) or super().solve(system, start, rtol)


class Relaxed(Accelerated):
    """The iteration on the rows that `System.relax` leaves free."""

    def point(self, system: System, z: Tensor) -> Point:
        return system.relax(z)

    def groups(self, system: System) -> Groups:
        return system.free_groups

    def start(self, system: System, z: Tensor) -> Visit:
        return super().start(system, system.free(z))

    def memory_rows(self, system: System, rows: Tensor) -> Tensor:
        return system.select_free(rows)
