"""Gradient: how a solution becomes part of an autograd graph, and the autograd function that does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from torch import Tensor

from autapse.gradient.function import FORWARD, Function, is_tracked
from autapse.solve import LinearReport, LinearSolver

AdjointNote = Callable[[LinearReport], None]  # called with the report of an adjoint solve


class Adjoint(ABC):
    """How the solution z of an equation depends on its operands.

    The methods get the solution and the operands as tensors of the graph, so that a method written with plain PyTorch
    calls can be differentiated again.

    >>> class Root(autapse.gradient.Adjoint):  # z = ∛a solves z³ = a, so dz = da / (3z²)
    ...     def __init__(self, a):
    ...         self.operands = (a,)
    ...     def pull(self, z, operands, gradient, needed):
    ...         return [gradient / (3 * z * z)]
    >>> a = torch.tensor([8.0], requires_grad=True)
    >>> z = autapse.gradient.base.attach(Root(a), torch.tensor([2.0]))
    >>> torch.autograd.grad(z, a)
    (tensor([0.0833]),)
    """

    operands: tuple[Tensor, ...]
    remedy: str = ""  # what to do instead of forward mode, if `push` is not written

    @abstractmethod
    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """The gradient of each operand from that of the solution; None if it is not needed."""

    def push(self, z: Tensor, operands: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Tensor:
        """The tangent of the solution from those of the operands."""
        raise NotImplementedError(f"The implicit gradient {FORWARD}. {self.remedy}")


def attach(adjoint: Adjoint, z: Tensor) -> Tensor:
    """The solution z, which has no graph, as a function of the adjoint's operands; only z if none needs a gradient."""
    operands, adjoint.operands = adjoint.operands, ()  # the graph keeps them, and frees them after the backward pass
    return _Solution.apply(adjoint, z, *operands) if is_tracked(operands) else z


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
    """A system whose solution can be differentiated, with an adjoint that a linear solver finds."""

    operands: tuple[Tensor, ...]
    """The tensors that F depends on, apart from z."""
    has_gradients: bool
    """Whether `pull` gives the gradients of the operands. If not, it gives that of F(z), and autograd does the rest."""

    def evaluate(self, z: Tensor) -> Tensor:
        """F(z), which autograd can follow to the operands and to z."""

    def pull(
        self, z: Tensor, gradient: Tensor, solver: LinearSolver, rtol: float
    ) -> tuple[Sequence[Tensor | None], LinearReport]:
        """The gradients of the operands or of F(z), from that of the solution z; and a report of the adjoint solve."""


class ClosedForm(Adjoint):
    """A system whose solution can be differentiated, with an adjoint in closed form."""

    @abstractmethod
    def evaluate(self, z: Tensor) -> Tensor:
        """F(z), which autograd can follow to the operands and to z."""


class Gradient(ABC):
    """A way to differentiate the solution z of z = F(z) by the parameters and inputs of F."""

    forward_remedy: ClassVar[str | None] = None
    """What to do instead of forward mode (torch.func.jvp); None if it works."""

    @abstractmethod
    def attach(
        self,
        system: Solved | ClosedForm,
        z: Tensor,  # the solution, which has no graph
        converged: Tensor | None,  # [N, 1] bool, rows of converged problems: others have no gradient. None: all
        rtol: float,  # tolerance of the adjoint, used if the gradient's own rtol is None
        note: AdjointNote,
    ) -> Tensor:
        """The solution with a graph."""
