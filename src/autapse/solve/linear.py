"""LinearSolver and LinearReport: the base of all solvers of A·x = b."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse.solve.limits import Limits
from autapse.solve.operator import Operator

DEFAULT_RTOL = 1e-6


@dataclass(frozen=True)
class LinearReport:
    """How a linear solver did on each of B problems. Tensors are detached, and on the device of the right side.

    Attributes:
        converged: [B] bool, whether the tolerance was reached.
        residual: [B] float64, ‖b − A·x‖ / ‖b‖ as the method computes it.
        iterations: [B] int64.
        evaluations: [B] float64, the number of products with A, or of operations that cost as much.

    >>> _, report = autapse.solve.GMRES().solve(autapse.solve.Matrices(torch.eye(2)[None]), torch.ones(1, 2))
    >>> report.converged, report.iterations
    (tensor([True]), tensor([1]))
    """

    converged: Tensor
    residual: Tensor
    iterations: Tensor
    evaluations: Tensor


class Request(NamedTuple):
    """The problems of a linear solver and their tolerances, [B] each."""

    size: Tensor  # float64, ‖b‖
    goal: Tensor  # float64, the norm that the residual must reach
    wanted: Tensor  # bool, the problems to solve

    @property
    def open(self) -> Tensor:
        """The wanted problems that x = 0 does not solve."""
        return self.wanted & (self.size > self.goal) & torch.isfinite(self.size)

    def report(self, residual: Tensor, iterations: Tensor, evaluations: Tensor) -> LinearReport:
        """The report, from the norms of the residuals; infinite if there is no solution.

        Problems that are not wanted count as converged.
        """
        converged = (residual <= self.goal) & torch.isfinite(self.size)
        relative = torch.where(residual == 0, 0.0, residual / self.size).nan_to_num(nan=torch.inf, posinf=torch.inf)
        return LinearReport(converged | ~self.wanted, relative, iterations, evaluations)


@dataclass(frozen=True, kw_only=True)
class LinearSolver(Limits, ABC):
    """Base class of the solvers of A·x = b.

    A problem has converged if ‖b − A·x‖ ≤ rtol·‖b‖ + atol. With `rtol=None` the caller of `solve` chooses the
    tolerance; it is 1e-6 if the caller gives none.

    >>> operator = autapse.solve.Matrices(torch.tensor([[[2.0, 1.0], [1.0, 3.0]]]))
    >>> x, report = autapse.solve.BiCGStab().solve(operator, torch.tensor([[3.0, 4.0]]), rtol=1e-5)
    >>> x.round(decimals=3)
    tensor([[1., 1.]])
    """

    iterative: ClassVar[bool] = True
    """Whether products with A are enough. A direct solver needs the blocks of A."""
    default_iterations: ClassVar[int] = 40

    @abstractmethod
    @torch.no_grad()
    def solve(
        self,
        operator: Operator,
        b: Tensor,  # [N, ...]
        rtol: float | Tensor | None = None,  # a number or [B]
        active: Tensor | None = None,  # [B] bool
    ) -> tuple[Tensor, LinearReport]:
        """Solve every problem, starting from zero.

        Args:
            operator: A, one per problem.
            b: the right side, with the shape of the unknowns.
            rtol: the relative tolerance, one for all or [B], used if the solver's own `rtol` is None.
            active: [B] bool, the problems to solve; x is zero for the others.

        Returns:
            The solutions x, and a `LinearReport` with one entry per problem.
        """

    def _request(self, operator: Operator, b: Tensor, rtol: float | Tensor | None, active: Tensor | None) -> Request:
        size = operator.groups.norm(b).double()
        own = self.rtol if self.rtol is not None else DEFAULT_RTOL if rtol is None else rtol
        wanted = torch.ones_like(size, dtype=torch.bool) if active is None else active
        return Request(size, own * size + self.atol, wanted)
