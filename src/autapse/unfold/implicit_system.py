"""ImplicitSystem: the equations at all positions of a batch, for cells that look ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from autapse.forms.implicit import Neighbours, Rule, Slope
from autapse.sequences.red_black import RedBlackOrder
from autapse.solve import (
    Blocks,
    Groups,
    Linear,
    LinearReport,
    LinearSolver,
    Operator,
    Point,
    Resolvent,
    System,
)
from autapse.unfold.banded import eliminated


class ImplicitSystem(System):
    """h_t = rule(u_t, h_{t+j} for j in the stencil), for every position of every sequence."""

    has_gradients = False  # autograd follows F(z)

    def __init__(self, rule: Rule, u: Tensor, layout: RedBlackOrder, edges: Tensor) -> None:
        """`u` [N, G] in the layout's order; `edges` [1, S] or [2B, S], the states before and after each sequence."""
        self.rule, self.u, self.layout, self.edges = rule, u, layout, edges
        self.operands = (u, edges, *rule.operands)
        self.extent = layout.extent

    @cached_property
    def groups(self) -> Groups:  # type: ignore[override]
        return Groups(self.layout.count, self.layout.owner)

    @cached_property
    def free_groups(self) -> Groups:
        return Groups(self.layout.count, self.layout.owner[: self.layout.free])

    def zero(self) -> Tensor:
        return self.edges.new_zeros(self.layout.total, self.edges.shape[1])

    def select(self, problems: Tensor) -> tuple[ImplicitSystem, Tensor]:
        layout, rows = self.layout.select(problems)
        edges = self.edges
        if layout.edges:
            edges = edges.index_select(0, torch.cat([problems, problems + self.layout.count]))
        return self._part(layout, rows, edges), rows

    def _part(self, layout: RedBlackOrder, rows: Tensor, edges: Tensor) -> ImplicitSystem:
        return ImplicitSystem(self.rule, self.u.index_select(0, rows), layout, edges)

    def drive(self, rows: slice) -> Tensor:
        return self.u[rows]

    # Evaluation -------------------------------------------------------------------------------------------------

    def near(self, other: Tensor, colour: int, edges: Tensor | None = None, part: slice = slice(None)) -> Neighbours:
        """The neighbours of the rows of a colour, or of a part of them: rows of `other`, the other colour, or edges."""
        table = torch.cat([other, self.edges if edges is None else edges])
        index = self.layout.neighbours[colour]
        return tuple(table.index_select(0, index[offset][part]) for offset in self.rule.offsets)

    def evaluate(self, z: Tensor) -> Tensor:
        return torch.cat([self._evaluate(z, colour) for colour in range(len(self.layout.colours))])

    def _evaluate(self, z: Tensor, colour: int) -> Tensor:
        return self.rule.evaluate(
            self.drive(self.layout.colours[colour]), self.near(z[self.layout.others[colour]], colour)
        )

    def free(self, z: Tensor) -> Tensor:
        return z[: self.layout.free]

    def select_free(self, rows: Tensor) -> Tensor:
        return rows[rows < self.layout.free]

    def relax(self, free: Tensor) -> Point:
        if not self.rule.has_bands:
            return super().relax(free)
        colours, values, couplings = self.layout.colours, [free], list[Neighbours]()
        for colour in reversed(range(len(colours))):  # the free rows give the others, and these the free ones
            value, bands = self.rule.evaluate_with_bands(self.drive(colours[colour]), self.near(values[-1], colour))
            values.append(value)
            couplings.insert(0, bands)

        def correct(residual: Tensor) -> Tensor:
            return self.eliminate(couplings)(residual)[: len(free)]

        return Point(torch.cat(values[:-1]), values[-1] - free, correct)

    def eliminate(self, couplings: Sequence[Neighbours], transposed: bool = False) -> Callable[[Tensor], Tensor]:
        """The inverse of I − bands, given the bands of each colour; missing rows of its argument are zero."""
        bands = {offset: torch.cat(parts) for offset, *parts in zip(self.rule.offsets, *couplings, strict=True)}
        return eliminated(self.layout, bands, transposed)

    # Sweeps and guesses -----------------------------------------------------------------------------------------

    def positions(self) -> Sequence[slice]:
        return self.layout.positions

    def colours(self) -> Sequence[slice]:
        return self.layout.colours if self.layout.two_colours else super().colours()

    def evaluate_rows(self, z: Tensor, rows: slice) -> Tensor:
        if rows in self.layout.colours:
            return self._evaluate(z, self.layout.colours.index(rows))
        colour = int(rows.start >= self.layout.free)
        begin = self.layout.colours[colour].start
        part = slice(rows.start - begin, rows.stop - begin)
        return self.rule.evaluate(self.drive(rows), self.near(z[self.layout.others[colour]], colour, part=part))

    def guess(self) -> Tensor:
        """The start of the INN paper: an explicit pass in each direction, then the rule on the states of both."""
        layout, passes = self.layout, []
        for steps in (range(layout.extent), range(layout.extent - 1, -1, -1)):
            z, last = self.zero(), self.edges.new_zeros(layout.count, self.edges.shape[1])
            for t in steps:
                here = layout.positions[t]
                guess = self.rule.guess(self.drive(here), last[: layout.sizes[t]])
                if guess is None:
                    return self.zero()
                z[here] = guess
                last = torch.cat([guess, last[layout.sizes[t] :]])
            passes.append(z)
        tables = [self.near_all(z) for z in passes]
        near = [
            tuple(tables[offset > 0][c][n] for n, offset in enumerate(self.rule.offsets))
            for c in range(len(layout.colours))
        ]
        return torch.cat([self.rule.evaluate(self.drive(rows), near[c]) for c, rows in enumerate(layout.colours)])

    def near_all(self, z: Tensor) -> list[Neighbours]:
        return [self.near(z[self.layout.others[colour]], colour) for colour in range(len(self.layout.colours))]

    # Derivatives ------------------------------------------------------------------------------------------------

    def linearize(self, z: Tensor) -> tuple[Tensor, ImplicitSlope]:
        pairs = [
            self.rule.linearize(self.drive(rows), near)
            for rows, near in zip(self.layout.colours, self.near_all(z), strict=True)
        ]
        return torch.cat([value for value, _ in pairs]), ImplicitSlope(self, [slope for _, slope in pairs])

    def pull(
        self, z: Tensor, gradient: Tensor, solver: LinearSolver, rtol: float
    ) -> tuple[tuple[Tensor | None, ...], LinearReport]:
        _, slope = self.linearize(z)
        v, report = slope.adjoint(gradient, solver, rtol)
        return slope.gradients(v), report


class ImplicitSlope(Linear):
    """The derivative of an implicit system, one slope per colour."""

    def __init__(self, system: ImplicitSystem, slopes: Sequence[Slope]) -> None:
        self.system, self.slopes = system, list(slopes)
        self.zeros = torch.zeros_like(system.edges)

    @property
    def groups(self) -> Groups:  # type: ignore[override]
        return self.system.groups

    def jvp(self, v: Tensor) -> Tensor:
        layout = self.system.layout
        parts = [
            slope.jvp(self.system.near(v[layout.others[colour]], colour, self.zeros))
            for colour, slope in enumerate(self.slopes)
        ]
        return torch.cat(parts)

    def vjp(self, v: Tensor) -> Tensor:
        layout = self.system.layout
        parts = [self.pulled(v[rows], colour) for colour, rows in enumerate(layout.colours)]
        return torch.cat(parts[::-1])

    def pulled(self, v: Tensor, colour: int) -> Tensor:
        """Jᵀ·v at the rows on the stencil of a colour's rows, given v at the rows of the colour."""
        return self._gather(self.slopes[colour].vjp(v), colour)

    def _gather(self, sent: Neighbours, colour: int) -> Tensor:
        """The sum over the neighbours of each row. The part that t sends to t + j comes from the neighbour at −j."""
        layout = self.system.layout
        back = layout.neighbours[1 - colour if layout.two_colours else colour]
        total: Tensor | None = None
        for offset, part in zip(self.system.rule.offsets, sent, strict=True):
            arrived = torch.cat([part, self.zeros]).index_select(0, back[-offset])
            total = arrived if total is None else total.add_(arrived)
        assert total is not None
        return total

    def precondition(self, transposed: bool = False) -> Callable[[Tensor], Tensor] | None:
        bands = [slope.bands() for slope in self.slopes]
        if any(band is None for band in bands):
            return None
        return self.system.eliminate([band for band in bands if band is not None], transposed)

    def blocks(self) -> Blocks:
        layout, offsets = self.system.layout, self.system.rule.offsets
        if not set(offsets) <= {-1, 1}:
            raise NotImplementedError(
                f"Blocks on the stencil {offsets} are not tridiagonal: use GMRES() or BiCGStab()."
            )
        by_offset = {}
        for n, offset in enumerate(offsets):
            rows = torch.cat([slope.blocks()[n] for slope in self.slopes])
            by_offset[offset] = rows * layout.inside[offset][:, :, None]
        zeros = torch.zeros_like(next(iter(by_offset.values())))
        return Blocks(by_offset.get(-1, zeros), by_offset.get(1, zeros), layout.first, layout.sizes)

    # The adjoint ------------------------------------------------------------------------------------------------

    def adjoint(self, gradient: Tensor, solver: LinearSolver, rtol: float) -> tuple[Tensor, LinearReport]:
        """v of v = g + Jᵀ·v. With two colours the second is eliminated, which halves the unknowns."""
        layout = self.system.layout
        if not layout.two_colours or not solver.iterative:
            return solver.solve(Resolvent(self, transposed=True), gradient, rtol)
        even, odd = gradient[: layout.free], gradient[layout.free :]
        v, report = solver.solve(_HalfAdjoint(self), even + self.pulled(odd, 1), rtol)
        return torch.cat([v, odd + self.pulled(v, 0)]), report

    def gradients(self, v: Tensor) -> tuple[Tensor | None, ...]:
        """What `ImplicitSystem.pull` gives: here v, which is the gradient of F(z)."""
        return (v,)


class _HalfAdjoint(Operator):
    """I − Jᵀ with the second colour eliminated: v ↦ v − Jᵀ·Jᵀ·v on the first colour."""

    def __init__(self, slope: ImplicitSlope) -> None:
        self.slope, self.groups = slope, slope.system.free_groups

    def mv(self, v: Tensor) -> Tensor:
        return v - self.slope.pulled(self.slope.pulled(v, 0), 1)

    def precondition(self) -> Callable[[Tensor], Tensor] | None:
        whole, layout = self.slope.precondition(transposed=True), self.slope.system.layout
        if whole is None:
            return None
        return lambda v: whole(v)[: layout.free]
