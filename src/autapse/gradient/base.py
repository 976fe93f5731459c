"""Gradient: what makes a solution part of an autograd graph, and the one autograd function that does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from torch import Tensor

from autapse.gradient.function import FORWARD, Function
from autapse.solve import LinearReport, LinearSolver


class Adjoint(ABC):
    """How the solution z of an equation depends on its operands.

    The methods get the solution and the operands as tensors of the graph, so that a method written with plain PyTorch
    calls can be differentiated again.
    """

    operands: tuple[Tensor, ...]
    remedy: str = ""  # what to do instead of forward mode, where `push` is not written

    @abstractmethod
    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """The gradient of each operand from that of the solution; None where it is not needed."""

    def push(self, z: Tensor, operands: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Tensor:
        """The tangent of the solution from those of the operands."""
        raise NotImplementedError(f"The implicit gradient {FORWARD}. {self.remedy}")


def attach(adjoint: Adjoint, z: Tensor) -> Tensor:
    """The solution z, found without a graph, as a function of the adjoint's operands."""
    return _Solution.apply(adjoint, z, *adjoint.operands)


class _Solution(Function):
    """The solution as it is; its derivatives are those of the equation."""

    @staticmethod
    def forward(adjoint: Adjoint, z: Tensor, *operands: Tensor) -> Tensor:
        return z.view_as(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.adjoint, _, *operands = inputs
        ctx.save_for_backward(output, *operands)  # a later change in place of one of them raises an error
        ctx.save_for_forward(output, *operands)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        z, *operands = ctx.saved_tensors
        return None, None, *ctx.adjoint.pull(z, operands, gradient, ctx.needs_input_grad[2:])

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        z, *operands = ctx.saved_tensors
        return ctx.adjoint.push(z, operands, tangents[2:])


class Solved(Protocol):
    """A system that can say how its solution depends on its operands."""

    def operands(self, z: Tensor) -> tuple[Tensor, ...]:
        """The tensors that gradients are wanted for, and those that `pull` reads again, given the solution."""

    def evaluate(self, z: Tensor) -> Tensor:
        """F(z), which autograd can follow to the operands and to z."""

    def pull(
        self, z: Tensor, gradient: Tensor, solver: LinearSolver, rtol: float
    ) -> tuple[Sequence[Tensor | None], LinearReport]:
        """The gradient of each operand from that of the solution z, None for none; and how the adjoint solve went."""

    def adjoint(self) -> Adjoint | None:
        """The adjoint in closed form, where the system has one; else None."""


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
        note: Callable[[LinearReport], None],  # gets the report of the adjoint solve, where there is one
    ) -> Tensor:
        """The solution with a graph."""
