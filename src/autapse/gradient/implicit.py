"""Implicit: the gradient of the equation itself. It does not depend on the solver."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.gradient.base import Adjoint, AdjointNote, ClosedForm, Gradient, Solved, attach
from autapse.gradient.function import opaque
from autapse.solve import GMRES, LinearReport, LinearSolver, NotConvergedWarning

SECOND = (
    "The implicit gradient cannot be differentiated again: its graph is the adjoint solve. For second derivatives use "
    "gradient=autapse.gradient.Unrolled(k), which is plain autograd."
)
FORWARD_REMEDY = "Use reverse mode (backward, torch.func.grad, jacrev), or gradient=autapse.gradient.Unrolled(k)."


@dataclass(frozen=True, kw_only=True)
class Implicit(Gradient):
    """dL/dθ = v·∂F/∂θ with v = g + Jᵀ·v, the adjoint: one linear system of the size of the solution.

    An adjoint that does not reach its tolerance is used as it is, with a warning. The systems of equilibria are small:
    they are solved directly, and have derivatives of any order.

    Args:
        rtol: relative tolerance of the adjoint. None: the layer chooses it.
        solver: the solver of the adjoint system.

    >>> layer = autapse.ImplicitGRU(3, 4, gradient=autapse.gradient.Implicit(rtol=1e-6))
    >>> layer(torch.zeros(5, 2, 3))[0].sum().backward()
    """

    forward_remedy: ClassVar[str | None] = FORWARD_REMEDY

    rtol: float | None = None
    solver: LinearSolver = field(default_factory=lambda: GMRES(max_iterations=30))

    def __post_init__(self) -> None:
        if self.rtol is not None:
            checks.number("rtol", self.rtol, low=0.0)
        if not isinstance(self.solver, LinearSolver):
            checks.fail("solver", "be a linear solver such as GMRES()", self.solver, kind=checks.KindError)

    def attach(
        self, system: Solved | ClosedForm, z: Tensor, converged: Tensor | None, rtol: float, note: AdjointNote
    ) -> Tensor:
        if isinstance(system, ClosedForm):
            return attach(system, z)
        operands = system.operands if system.has_gradients else (system.evaluate(z), *system.operands)
        rtol = rtol if self.rtol is None else self.rtol
        return attach(LinearAdjoint(operands, system, self.solver, rtol, converged, note), z)


DEFAULT = Implicit()  # of every layer that solves equations


@dataclass(eq=False)
class LinearAdjoint(Adjoint):
    """The adjoint by a linear solver. There are only first derivatives."""

    remedy = FORWARD_REMEDY

    operands: tuple[Tensor, ...]
    system: Solved
    solver: LinearSolver
    rtol: float
    converged: Tensor | None
    note: AdjointNote

    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        places: list[int] = []

        def pull(z: Tensor, gradient: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
            if self.converged is not None:
                gradient = torch.where(self.converged, gradient, 0.0)
            pulled, report = self.system.pull(z, gradient, self.solver, self.rtol)
            self.note(report)
            _warn(report, self.rtol)
            places[:] = [n for n, part in enumerate(pulled) if part is not None and needed[n]]
            return tuple(pulled[n] for n in places)  # type: ignore[misc]

        gradients = opaque(pull, SECOND, z, gradient, *operands)
        by_place = dict(zip(places, gradients, strict=True))
        return [by_place.get(n) for n in range(len(needed))]


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
