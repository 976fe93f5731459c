"""A network whose stencil looks ahead as a sequence: solved whole, by the native kernels where they can."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from autapse.forms.coupled import Rule
from autapse.gradient import Gradient
from autapse.gradient.function import is_tracked, reverse_mode_only
from autapse.solve import LinearReport, Solver, SolveReport
from autapse.unfold.coupled import Coupled
from autapse.unfold.coupled_fused import FusedCoupled, can_fuse_rule
from autapse.unfold.lattice import Lattice


def unfold_coupled(
    rule: Rule,
    u: Tensor,  # [N, G], in the lattice's order
    lattice: Lattice,
    edges: Tensor,  # [1, S] or [2B, S]
    solver: Solver,
    gradient: Gradient,
    rtol: float,
    adjoint_rtol: float,
    start: Tensor | None,  # [N, S], in the lattice's order
    note: Callable[[LinearReport], None],
) -> tuple[Tensor, SolveReport]:
    """The states at all positions, in the lattice's order, with a graph where one is wanted; and how the solve went."""
    system = (
        FusedCoupled(rule, u, lattice, edges) if can_fuse_rule(rule, u, edges) else Coupled(rule, u, lattice, edges)
    )
    reverse_mode_only("An implicit layer", system.operands, gradient.forward_remedy)
    with torch.no_grad(), forward_ad._set_fwd_grad_enabled(False):  # the derivative is that of the solution
        z, report = solver.solve(system, start, rtol)
    if not is_tracked(system.operands):
        return z, report
    converged = system.groups.spread(report.converged.to(z.device), z)
    return gradient.attach(system, z, converged, adjoint_rtol, note), report
