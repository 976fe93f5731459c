"""A network whose stencil looks ahead as a sequence: solved whole, by the native kernels where they can."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from autapse.forms.implicit import Rule
from autapse.gradient import Gradient
from autapse.gradient.function import is_tracked, reverse_mode_only
from autapse.sequences.red_black import RedBlack
from autapse.solve import LinearReport, Solver, SolveReport
from autapse.unfold.implicit_fused import FusedImplicitSystem, can_fuse_rule
from autapse.unfold.implicit_system import ImplicitSystem


def unfold_coupled(
    rule: Rule,
    u: Tensor,  # [N, G], in the layout's order
    layout: RedBlack,
    edges: Tensor,  # [1, S] or [2B, S]
    solver: Solver,
    gradient: Gradient,
    rtol: float,
    adjoint_rtol: float,
    start: Tensor | None,  # [N, S], in the layout's order
    note: Callable[[LinearReport], None],
) -> tuple[Tensor, SolveReport]:
    """The states at all positions, in the layout's order, with a graph where one is wanted; and how the solve went."""
    system = (
        FusedImplicitSystem(rule, u, layout, edges)
        if can_fuse_rule(rule, u, edges)
        else ImplicitSystem(rule, u, layout, edges)
    )
    reverse_mode_only("An implicit layer", system.operands, gradient.forward_remedy)
    with torch.no_grad(), forward_ad._set_fwd_grad_enabled(False):  # the derivative is that of the solution
        z, report = solver.solve(system, start, rtol)
    if not is_tracked(system.operands):
        return z, report
    converged = system.groups.spread(report.converged.to(z.device), z)
    return gradient.attach(system, z, converged, adjoint_rtol, note), report
