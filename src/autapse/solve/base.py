"""Solver: what all solvers of z = F(z) are, and the bookkeeping that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.limits import Limits
from autapse.solve.report import SolveReport
from autapse.solve.system import System

DEFAULT_RTOL = 1e-4
TINY = 1e-12  # a state of zero has no relative residual
COMPACT = 0.9  # the part of the rows that must still be at work; below it the others are dropped


@dataclass(frozen=True, kw_only=True)
class Solver(Limits, ABC):
    """A way to solve z = F(z): `z, report = solver.solve(system)`.

    A problem has converged when ‖F(z) − z‖ ≤ rtol·‖z‖ + atol. One that has not within `max_iterations` is returned at
    the point where its residual was least. `rtol=None` leaves the tolerance to the caller, such as a layer, and is 1e-4
    without one.
    """

    @abstractmethod
    @torch.no_grad()
    def solve(
        self,
        system: System,
        start: Tensor | None = None,  # of the shape of z; the system's zero by default
        rtol: float | None = None,  # for a solver whose own rtol is None
    ) -> tuple[Tensor, SolveReport]:
        """The solutions, and how each problem went."""

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def _tolerance(self, rtol: float | None) -> float:
        if self.rtol is not None:
            return self.rtol
        return DEFAULT_RTOL if rtol is None else checks.number("rtol", rtol, low=0.0)


class Progress:
    """Who is still at work, the best that each problem has, and what it cost.

    `system` shrinks as problems are done; `note` takes what an iteration found, `leave` drops those that are done.
    """

    def __init__(self, system: System, z: Tensor, rtol: float, atol: float) -> None:
        self.system, self.rtol, self.atol = system, rtol, atol
        count, device = system.groups.count, z.device
        self.problems = torch.arange(count, device=device)  # of those at work, which they are of all
        self.rows: Tensor | None = None  # of their rows, which they are of all; None for all
        self.solution = z  # of all problems, replaced where one leaves
        self.best, self.active = z, torch.ones(count, dtype=torch.bool, device=device)
        self.least = torch.full((count,), torch.inf, dtype=torch.float64, device=device)  # of those at work
        self.now = self.least.clone()
        self.residual = self.least.clone()  # of all
        self.converged, self.lost = ~self.active, ~self.active
        self.iterations = torch.zeros(count, dtype=torch.long, device=device)
        self.evaluations = torch.zeros(count, dtype=torch.float64, device=device)

    def charge(self, cost: float | Tensor) -> None:
        """Count evaluations of those that are not done."""
        self.evaluations[self.problems] += self.active.double() * cost

    def step(self) -> None:
        """Count an iteration of those that are not done."""
        self.iterations[self.problems] += self.active

    def note(self, z: Tensor, residual: Tensor, size: Tensor) -> bool:
        """A point, the norm of its residual and its own norm, [b] each; whether any problem is still at work."""
        fine = torch.isfinite(residual) & torch.isfinite(size)
        self.now = torch.where(fine, (residual / size.clamp_min(TINY)).double(), torch.inf)
        done = self.active & self.reached(residual, size)
        better = done | (self.active & (self.now < self.least))
        if bool(better.all()):
            self.best = z
        else:
            self.best = torch.where(self.system.groups.spread(better, z), z, self.best)
        self.least = torch.where(better, self.now, self.least)
        self.converged[self.problems] |= done
        # From a point that is not a number no method comes back; from one that is only too large, some do.
        lost = self.active & ~done & (residual.isnan() | size.isnan())
        self.lost[self.problems] |= lost
        self.active = self.active & ~done & ~lost
        return bool(self.active.any())

    def reached(self, residual: Tensor, size: Tensor) -> Tensor:  # [b] each
        """Whether a residual is within the tolerance at a point of the norm `size`."""
        return (residual.double() <= self.rtol * size.double() + self.atol) & torch.isfinite(size)

    def leave(self) -> Tensor | None:
        """Drop the rows of those that are done where they are many; the rows that stay, or None where all do."""
        staying = self.active.nonzero()[:, 0]
        if len(staying) > COMPACT * len(self.active):
            return None
        self._write()
        self.system, rows = self.system.select(staying)
        self.rows = rows if self.rows is None else self.rows.index_select(0, rows)
        self.problems = self.problems.index_select(0, staying)
        self.best, self.least, self.now = (
            part.index_select(0, index)
            for part, index in ((self.best, rows), (self.least, staying), (self.now, staying))
        )
        self.active = self.active.index_select(0, staying)
        return rows

    def finish(self, name: str) -> tuple[Tensor, SolveReport]:
        self._write()
        eps = torch.finfo(self.solution.dtype).eps
        cost = (self.iterations, self.evaluations)
        return self.solution, SolveReport.make(self.converged, self.residual, *cost, name, eps, self.lost)

    def _write(self) -> None:
        self.residual[self.problems] = self.least
        if self.rows is None:
            self.solution = self.best.clone()
        else:
            self.solution.index_copy_(0, self.rows, self.best)
