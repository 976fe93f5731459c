"""Implicit: the gradient of the equation itself, whatever found the solution."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.gradient.base import Gradient, Solved
from autapse.gradient.function import Function, opaque
from autapse.solve import GMRES, LinearReport, LinearSolver, NotConvergedWarning

SECOND = (
    "The implicit gradient cannot be differentiated again: its graph is the adjoint solve. For second derivatives use "
    "gradient=autapse.gradient.Unrolled(k), which is plain autograd."
)
FORWARD_REMEDY = "Use reverse mode (backward, torch.func.grad, jacrev), or gradient=autapse.gradient.Unrolled(k)."


@dataclass(frozen=True, kw_only=True)
class Implicit(Gradient):
    """dL/dθ = v·∂F/∂θ with v = g + Jᵀ·v, the adjoint: one linear system of the size of the solution.

    The adjoint of a problem that the solver leaves above its tolerance is used as it is, with a warning.
    """

    forward_remedy: ClassVar[str | None] = FORWARD_REMEDY

    rtol: float | None = None
    """Relative tolerance of the adjoint; None leaves it to the layer."""
    solver: LinearSolver = field(default_factory=lambda: GMRES(max_iterations=30))
    """What solves the adjoint system."""

    def __post_init__(self) -> None:
        if self.rtol is not None:
            checks.number("rtol", self.rtol, low=0.0)
        if not isinstance(self.solver, LinearSolver):
            checks.fail("solver", "be a linear solver such as GMRES()", self.solver, kind=checks.KindError)

    def attach(
        self, system: Solved, z: Tensor, converged: Tensor, rtol: float, note: Callable[[LinearReport], None]
    ) -> Tensor:
        job = _Job(self.solver, system, rtol if self.rtol is None else self.rtol, note)
        return _Adjoint.apply(job, converged, z, *system.operands)


class _Job(NamedTuple):
    solver: LinearSolver
    system: Solved
    rtol: float
    note: Callable[[LinearReport], None]

    @torch.no_grad()
    def pull(self, z: Tensor, converged: Tensor, gradient: Tensor, needed: Sequence[bool]) -> tuple[Tensor, ...]:
        """The gradients of the operands that need one."""
        gradient = torch.where(converged, gradient, torch.zeros((), dtype=z.dtype, device=z.device))
        found, report = self.system.pull(z, gradient, self.solver, self.rtol)
        self.note(report)
        _warn(report, self.rtol)
        pairs = zip(found, self.system.operands, needed, strict=True)
        return tuple(torch.zeros_like(t) if g is None else g for g, t, need in pairs if need)


class _Adjoint(Function):
    """The solution forward; the adjoint solve backward."""

    remedy = FORWARD_REMEDY

    @staticmethod
    def forward(job: _Job, converged: Tensor, z: Tensor, *operands: Tensor) -> Tensor:
        return z.view_as(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # apart, for torch.func
        job, converged, z, *operands = inputs
        ctx.job = job
        ctx.save_for_backward(z, converged, *operands)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        z, converged, *operands = ctx.saved_tensors  # also fails where one of them was changed in place
        needed = ctx.needs_input_grad[3:]

        def pull(z: Tensor, converged: Tensor, gradient: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
            return ctx.job.pull(z, converged, gradient, needed)

        found = iter(opaque(pull, SECOND, z, converged, *gradients, *operands))
        return None, None, None, *(next(found) if need else None for need in needed)


def _warn(report: LinearReport, rtol: float) -> None:
    failed = int((~report.converged).sum())
    if failed:
        worst = float(report.residual.max())
        warnings.warn(
            f"The adjoint of {failed} of {len(report.converged)} problems stopped above its tolerance {rtol:g}, at "
            f"{worst:.2g} at worst, and is used as it is. Try gradient=Implicit(solver=GMRES(max_iterations=100)).",
            NotConvergedWarning,
            stacklevel=2,
        )
