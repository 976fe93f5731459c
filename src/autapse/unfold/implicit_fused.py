"""The system of an implicit GRU by the native kernels, equal to `ImplicitSystem` up to rounding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse.forms.implicit import Neighbours, Rule
from autapse.forms.implicit_gru import GRUSlope, ImplicitGRURule
from autapse.native.dispatch import kernels_serve
from autapse.native.implicit import SLOPE_PARTS, ImplicitKernel
from autapse.native.library import MOST_OFFSETS, MOST_WINDOW
from autapse.sequences.red_black import RedBlackOrder
from autapse.solve import GMRES, LinearReport, LinearSolver, Point, Relaxing, SolveReport
from autapse.unfold.banded import eliminated, native_sequences
from autapse.unfold.implicit_system import ImplicitSlope, ImplicitSystem


def fused_kernel(rule: Rule, u: Tensor, edges: Tensor) -> ImplicitKernel | None:
    """The kernel of a rule, or None if there is none for this input, so that the reference must run."""
    if type(rule) is not ImplicitGRURule or len(rule.offsets) > MOST_OFFSETS:
        return None
    return ImplicitKernel(*rule.operands) if kernels_serve(u, edges, *rule.operands) else None


class FusedImplicitSystem(ImplicitSystem):
    """`ImplicitSystem` for an ImplicitGRURule: one call per colour evaluates products and gates, block by block."""

    has_gradients = True
    rule: ImplicitGRURule

    def __init__(
        self,
        rule: Rule,
        u: Tensor,
        layout: RedBlackOrder,
        edges: Tensor,
        kernel: ImplicitKernel,
        rows: Tensor | None = None,  # [N], the row of u for each row of the layout; None if they are the same
    ) -> None:
        super().__init__(rule, u, layout, edges)
        self.kernel = kernel
        self._drive, self._edges, self._rows = u.detach().contiguous(), edges.detach().contiguous(), rows

    def _part(self, layout: RedBlackOrder, rows: Tensor, edges: Tensor) -> FusedImplicitSystem:
        # The drive is large, so it is not copied: an index selects its rows.
        own = rows if self._rows is None else self._rows.index_select(0, rows)
        return FusedImplicitSystem(self.rule, self._drive, layout, edges, self.kernel, own)

    def drive(self, rows: slice) -> Tensor:
        return super().drive(rows) if self._rows is None else self._drive.index_select(0, self._rows[rows])

    def _fused(
        self, colour: int, other: Tensor, h: Tensor, bands: Tensor | None = None, slope: Tensor | None = None
    ) -> None:
        rows = self.layout.colours[colour]
        index = self.layout.neighbours[colour]
        u = self._drive[rows] if self._rows is None else self._drive
        chosen = None if self._rows is None else self._rows[rows]
        near = [index[offset] for offset in self.rule.offsets]
        self.kernel.evaluate(u, chosen, other.contiguous(), self._edges, near, h, bands, slope)

    def _evaluate(self, z: Tensor, colour: int) -> Tensor:
        if torch.is_grad_enabled():  # autograd follows the reference
            return super()._evaluate(z, colour)
        rows = self.layout.colours[colour]
        h = z.new_empty(rows.stop - rows.start, z.shape[1])
        self._fused(colour, z[self.layout.others[colour]], h)
        return h

    def relax(self, free: Tensor) -> Point:
        layout, (offsets, size) = self.layout, (self.rule.offsets, free.shape[1])
        z, value = free.new_empty(layout.total, size), torch.empty_like(free)
        bands = free.new_empty(len(offsets), layout.total, size)
        z[: layout.free] = free
        other = z[: layout.free]
        if layout.two_colours:
            self._fused(1, other, z[layout.free :], bands[:, layout.free :])
            other = z[layout.free :]
        self._fused(0, other, value, bands[:, : layout.free])

        def correct(residual: Tensor) -> Tensor:
            return eliminated(layout, dict(zip(offsets, bands, strict=True)))(residual)[: layout.free]

        return Point(z, value - free, correct)

    def relaxed(self, start: Tensor | None, settings: Relaxing) -> tuple[Tensor, SolveReport] | None:
        if not self.has_native_solvers or settings.window > MOST_WINDOW or settings.max_iterations < 1:
            return None
        z = self.zero() if start is None else start.to(self._drive, copy=True).contiguous()
        residual, iterations, converged = self.kernel.relax(
            self._drive, self._rows, self._edges, native_sequences(self.layout), z, **settings._asdict()
        )
        return z, SolveReport.make(converged, residual, iterations, iterations, "tridiagonal")

    @property
    def has_native_solvers(self) -> bool:
        """Whether the native solvers can be used: they support the stencil (−1, 1) only."""
        return set(self.rule.offsets) == {-1, 1} and len(self.rule.offsets) == 2

    def linearize(self, z: Tensor) -> tuple[Tensor, FusedImplicitSlope]:
        values = torch.empty_like(z)
        parts = z.new_empty(2 * len(self.rule.offsets) + SLOPE_PARTS, *z.shape)
        for colour, rows in enumerate(self.layout.colours):
            self._fused(colour, z[self.layout.others[colour]], values[rows], slope=parts[:, rows])
        return values, FusedImplicitSlope(self, z, parts)


class FusedImplicitSlope(ImplicitSlope):
    """`ImplicitSlope` whose adjoint is solved in one call if the solver is GMRES."""

    system: FusedImplicitSystem

    def __init__(self, system: FusedImplicitSystem, z: Tensor, parts: Tensor) -> None:  # [N, H], [2J + 7, N, H]
        super().__init__(system, [_fused_slope(system, parts[:, rows]) for rows in system.layout.colours])
        self.z, self.parts = z, parts

    def adjoint(self, gradient: Tensor, solver: LinearSolver, rtol: float) -> tuple[Tensor, LinearReport]:
        if type(solver) is not GMRES or not self.system.has_native_solvers:
            return super().adjoint(gradient, solver, rtol)
        settings = {"rtol": rtol if solver.rtol is None else solver.rtol, "atol": solver.atol}
        v, (residual, iterations, converged) = self.system.kernel.adjoint(
            self.parts, native_sequences(self.system.layout), gradient, max_iterations=solver._limit(), **settings
        )
        return v, LinearReport(converged, residual, iterations, iterations.double())

    def gradients(self, v: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the system's operands."""
        # For all colours at once: these sums are over all rows.
        count, size = len(self.system.rule.offsets), v.shape[1]
        arguments = self.system.kernel.pull_arguments(self.parts, v)
        switches = arguments[:, : count * size].split(size, 1)
        gates, new = arguments[:, count * size :].split([2 * size, size], 1)
        mixed, reset = self.parts[-2:]
        near = [torch.cat(colours) for colours in zip(*self.system.near_all(self.z), strict=True)]
        matrices = torch.stack([a.t() @ h for a, h in zip(switches, near, strict=True)])
        return arguments, self._edge_gradients(v), matrices, gates.t() @ mixed, new.t() @ reset

    def _edge_gradients(self, v: Tensor) -> Tensor | None:
        layout, offsets = self.system.layout, self.system.rule.offsets
        if not layout.edges:
            return None
        edges, sent = torch.zeros_like(self.system.edges), self.system.kernel.pull(self.parts, v)
        for rows, other, near in zip(layout.colours, layout.others, layout.neighbours, strict=True):
            size = other.stop - other.start
            for offset, part in zip(offsets, sent, strict=True):
                outside = (near[offset] >= size).nonzero()[:, 0]
                edges.index_add_(0, near[offset][outside] - size, part[rows][outside])
        return edges


@dataclass(frozen=True, eq=False)
class FusedSlope(GRUSlope):
    """`GRUSlope` with its transposed products by the native kernels."""

    kernel: ImplicitKernel
    parts: Tensor  # [2J + 7, M, H]

    def vjp(self, v: Tensor) -> Neighbours:
        return self.kernel.pull(self.parts, v).unbind(0)


def _fused_slope(system: FusedImplicitSystem, parts: Tensor) -> FusedSlope:
    count = len(system.rule.offsets)
    s, competition = parts[:count].unbind(0), parts[count : 2 * count].unbind(0)
    z, by_z, r, by_r, by_new, *_ = parts[2 * count :].unbind(0)
    return FusedSlope(system.rule, s, competition, z, by_z, r, by_r, by_new, system.kernel, parts)
