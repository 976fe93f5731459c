"""A network whose stencil looks ahead as a sequence: solved whole, by the native kernels where they can."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from autapse.forms.coupled import Rule
from autapse.gradient import Gradient
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
    with torch.no_grad():
        z, report = solver.solve(system, start, rtol)
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in system.operands)):
        return z, report
    converged = system.groups.spread(report.converged.to(z.device), z)
    return gradient.attach(system, z, converged, adjoint_rtol, note), report
