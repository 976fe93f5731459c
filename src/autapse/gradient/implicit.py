"""Implicit: the gradient of the equation itself, whatever found the solution."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.gradient.base import Gradient, Solved
from autapse.solve import GMRES, LinearReport, LinearSolver, NotConvergedWarning

SECOND = (
    "The implicit gradient cannot be differentiated again: its graph is the adjoint solve. For second derivatives use "
    "gradient=autapse.gradient.Unrolled(k), which is plain autograd."
)


@dataclass(frozen=True, kw_only=True)
class Implicit(Gradient):
    """dL/dθ = v·∂F/∂θ with v = g + Jᵀ·v, the adjoint: one linear system of the size of the solution.

    The adjoint of a problem that the solver leaves above its tolerance is used as it is, with a warning.
    """

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


class _Adjoint(torch.autograd.Function):
    """The solution forward; the adjoint solve backward."""

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
        (gradient,) = gradients
        z, converged, *operands = ctx.saved_tensors  # also fails where one of them was changed in place
        with torch.no_grad():
            gradient = torch.where(converged, gradient, torch.zeros((), dtype=z.dtype, device=z.device))
            found, report = ctx.job.system.pull(z, gradient, ctx.job.solver, ctx.job.rtol)
        ctx.job.note(report)
        _warn(report, ctx.job.rtol)
        needed = ctx.needs_input_grad[3:]
        results = [g if need else None for g, need in zip(found, needed, strict=True)]
        if torch.is_grad_enabled():  # create_graph=True
            results = [None if g is None else _Once.apply(g, *operands) for g in results]
        return None, None, None, *results


class _Once(torch.autograd.Function):
    """A gradient that says so when it is differentiated again."""

    @staticmethod
    def forward(gradient: Tensor, *operands: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        raise NotImplementedError(SECOND)


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
