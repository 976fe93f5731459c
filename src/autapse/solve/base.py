"""Solver: the base of all solvers of z = F(z)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.limits import Limits
from autapse.solve.loop import Goal, Iteration, iterate
from autapse.solve.report import SolveReport
from autapse.solve.system import System

DEFAULT_RTOL = 1e-4


@dataclass(frozen=True, kw_only=True)
class Solver(Limits, ABC):
    """Base class of the solvers of z = F(z).

    A problem has converged if ‖F(z) − z‖ ≤ rtol·‖z‖ + atol. A problem that does not converge within `max_iterations`
    is returned at the point with the smallest residual. With `rtol=None` the caller of `solve`, such as a layer,
    chooses the tolerance; it is 1e-4 if the caller gives none.

    >>> equations = autapse.solve.Equations(lambda z, b: torch.cos(z) * b, torch.tensor([[0.5], [1.0]]))
    >>> z, report = autapse.solve.Newton().solve(equations, rtol=1e-6)
    >>> report.all_converged
    True
    """

    @abstractmethod
    @torch.no_grad()
    def solve(
        self,
        system: System,
        start: Tensor | None = None,  # [N, ...] the first point; None: system.zero()
        rtol: float | None = None,  # used if the solver's own rtol is None
    ) -> tuple[Tensor, SolveReport]:
        """Solve every problem of a system.

        Args:
            system: the batch of equations z = F(z).
            start: the first point, with the shape of z; `system.zero()` by default.
            rtol: the relative tolerance, used if the solver's own `rtol` is None.

        Returns:
            The solutions z, and a `SolveReport` with one entry per problem.
        """

    @property
    def name(self) -> str:
        """The name in reports: the class name in lower case, with spaces."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()

    def _tolerance(self, rtol: float | None) -> float:
        if self.rtol is not None:
            return self.rtol
        return DEFAULT_RTOL if rtol is None else checks.number("rtol", rtol, low=0.0)


@dataclass(frozen=True, kw_only=True)
class IterativeSolver(Solver):
    """A solver that runs one `Iteration`."""

    @abstractmethod
    def _iteration(self, goal: Goal) -> Iteration:
        """The method, which ends at the goal."""

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        z = system.zero() if start is None else start
        iteration = self._iteration(Goal(self._tolerance(rtol), self.atol))
        return iterate(self.name, iteration, system, z, self._limit_for(system))

    def _limit_for(self, system: System) -> int:
        return self._limit()
