"""Gradient: what makes a solution part of an autograd graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol

from torch import Tensor

from autapse.solve import LinearReport, LinearSolver


class Solved(Protocol):
    """A system that can say how its solution depends on its operands."""

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The tensors that gradients are wanted for."""

    def evaluate(self, z: Tensor) -> Tensor:
        """F(z), which autograd can follow to the operands and to z."""

    def pull(
        self, z: Tensor, gradient: Tensor, solver: LinearSolver, rtol: float
    ) -> tuple[tuple[Tensor | None, ...], LinearReport]:
        """The gradients of the operands from that of the solution z, and how the adjoint solve went."""


class Gradient(ABC):
    """A way to differentiate the solution z of z = F(z) with respect to what F depends on."""

    forward_remedy: ClassVar[str | None] = None
    """What to do instead of forward mode (torch.func.jvp); None where it works."""

    @abstractmethod
    def attach(
        self,
        system: Solved,
        z: Tensor,  # the solution, which has no graph
        converged: Tensor,  # [N, 1] bool, the rows whose problem was solved: the others give no gradient
        rtol: float,  # of the adjoint, for one whose own rtol is None
        note: Callable[[LinearReport], None],  # told how the adjoint solve went, where there is one
    ) -> Tensor:
        """The solution with a graph."""
