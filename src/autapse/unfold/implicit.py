"""Solve: all positions of a sequence as one nonlinear system, for cells that look ahead."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from autapse import checks
from autapse.cells import Cell
from autapse.cells.base import looks_ahead
from autapse.forms import State
from autapse.forms.implicit import Rule
from autapse.gradient import Gradient
from autapse.gradient.function import is_tracked, reverse_mode_only
from autapse.gradient.implicit import DEFAULT
from autapse.sequences.batch import SequenceBatch
from autapse.sequences.red_black import RedBlackOrder
from autapse.solve import LinearReport, Solver, Tolerance, general, recommended
from autapse.unfold.base import Unfold, Unfolded, name_of
from autapse.unfold.implicit_fused import FusedImplicitSystem, fused_kernel
from autapse.unfold.implicit_system import ImplicitSystem
from autapse.unfold.warm_start import MEGABYTE, Solutions


class Solve(nn.Module, Unfold):
    """All positions of a sequence as one system of equations, for cells that look ahead.

    A layer that gets it as `unfold` makes its own from the settings, since stored solutions belong to one layer.

    Args:
        solver: a solver of `autapse.solve`. None: `recommended()`, or `general()` if the rule has no elementwise
            couplings.
        gradient: one of `autapse.gradient`. None: `Implicit()`.
        tolerance: relative residual to reach, a number or `autapse.solve.Tolerance(…)`. None: `Tolerance()`.
        cache: megabytes for the last solution of each sequence, with which its next solve starts; see `keys`.

    >>> layer = autapse.ImplicitGRU(3, 4, solver=autapse.solve.Newton(), tolerance=1e-6, cache=64)
    >>> output, h_n = layer(torch.zeros(5, 2, 3), keys=["first", "second"])
    >>> layer.reports[0].all_converged
    True
    """

    unsolved = (
        "Their states are those with the smallest residual, they have no gradient, and layer.reports names them. Try a "
        "smaller learning rate, a larger tolerance or another solver."
    )
    calls: Tensor

    def __init__(
        self,
        *,
        solver: Solver | None = None,
        gradient: Gradient | None = None,
        tolerance: Tolerance | float | None = None,
        cache: float = 0.0,
    ) -> None:
        super().__init__()
        self.solver = _checked("solver", solver, Solver, "one of autapse.solve, such as Chain(Tridiagonal(), Newton())")
        self.gradient = _checked("gradient", gradient, Gradient, "one of autapse.gradient, such as Implicit()")
        if isinstance(tolerance, int | float) and not isinstance(tolerance, bool):
            tolerance = checks.number("tolerance", tolerance, above=0.0)
            tolerance = Tolerance(training=tolerance, adjoint=tolerance, evaluation=tolerance)
        rule = "a number or autapse.solve.Tolerance(…)"
        self.tolerance = _checked("tolerance", tolerance, Tolerance, rule) or Tolerance()
        self.solutions = Solutions(checks.number("cache", cache, low=0.0))
        # The schedule depends on the number of training calls, so it is part of a checkpoint.
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=self.tolerance.first is not None)

    def check(self, cell: type[Cell] | Cell) -> None:
        if not looks_ahead(cell):
            checks.fail("unfold", f"be None: {name_of(cell)} does not look ahead", "Solve()")

    def open(
        self,
        cells: Mapping[str, Cell],
        batch: SequenceBatch,
        training: bool,
        start_states: Any = None,
        keys: Any = None,
    ) -> SolveCall:
        starts = None if start_states is None else _start_rows(start_states, cells, batch)
        names = None if keys is None else self.solutions.checked_keys(keys, batch)
        calls = int(self.calls)
        if training and self.tolerance.first is not None:
            self.calls += 1
        return SolveCall(self, names, starts, training, calls)

    def run(self, cell: Cell, rows: Tensor, batch: SequenceBatch, initial: Any, **options: Any) -> Unfolded:
        return self.open({"l0": cell}, batch, self.training).run(cell, rows, batch, initial, **options)

    def for_layer(self) -> Solve:
        cache = self.solutions.limit / MEGABYTE
        return type(self)(solver=self.solver, gradient=self.gradient, tolerance=self.tolerance, cache=cache)

    def __repr__(self) -> str:
        return f"Solve({', '.join(self.words())})"

    def words(self) -> list[str]:
        megabytes = self.solutions.limit / MEGABYTE
        given = {"solver": self.solver, "gradient": self.gradient, "cache": megabytes or None}
        given["tolerance"] = None if self.tolerance == Tolerance() else self.tolerance
        return [f"{name}={value!r}" for name, value in given.items() if value is not None]


@dataclass(frozen=True, eq=False)
class SolveCall(Unfold):
    """`Solve` for one call of a layer."""

    unsolved = Solve.unsolved

    solve: Solve
    keys: list[Hashable] | None  # names of the sequences, in the order of the batch
    starts: list[Tensor] | None  # one [N, S] per layer, in the order of the batch
    training: bool
    calls: int  # training calls before this one, for the schedule of the tolerance
    adjoint_reports: list[LinearReport] = field(default_factory=list)  # the backward pass adds them, last layer first

    def check(self, cell: type[Cell] | Cell) -> None:
        self.solve.check(cell)

    def run(
        self,
        cell: Cell,
        rows: Tensor,
        batch: SequenceBatch,
        initial: tuple[State, State] | None,  # before and after each sequence; None: those of the cell
        *,
        layer: int = 0,
        start: int = 0,
        reverse: bool = False,
        keep: bool = True,
    ) -> Unfolded:
        if start:
            checks.fail("start", "be 0: an implicit layer reads whole sequences", start)
        learned = getattr(cell, "edges", None)
        order = RedBlackOrder.of(batch, cell.stencil, edges=initial is not None or learned is not None)
        x = rows.index_select(0, order.packed)
        sizes, rule, u = cell.state_sizes, cell.rule(cell.prepare()), cell.drive(x)
        edges = _edges(initial, learned, batch, sum(sizes))
        z, report = self._solve(rule, u, order, edges, self._first_point(layer, order, edges))
        if self.keys is not None:
            self.solve.solutions.store(layer, self.keys, order, z)
        states = z.new_empty(z.shape).index_copy(0, order.packed, z).split(sizes, 1)
        return Unfolded(states, order.final(z, edges).split(sizes, 1), report)

    def _first_point(self, layer: int, order: RedBlackOrder, like: Tensor) -> Tensor | None:
        if self.starts is not None:
            return self.starts[layer].index_select(0, order.packed)
        return None if self.keys is None else self.solve.solutions.start(layer, self.keys, order, like)

    def _solve(self, rule: Rule, u: Tensor, order: RedBlackOrder, edges: Tensor, first: Tensor | None) -> Any:
        """The states at all positions in red-black order, with a graph if one is needed; and the report."""
        gradient = self.solve.gradient or DEFAULT
        kernel = fused_kernel(rule, u, edges)
        system: ImplicitSystem
        if kernel is not None:  # then no function transform is active
            system = FusedImplicitSystem(rule, u, order, edges, kernel)
        else:
            system = ImplicitSystem(rule, u, order, edges)
            reverse_mode_only("An implicit layer", system.operands, gradient.forward_remedy)
        rtol, adjoint_rtol = self.solve.tolerance.at(self.training, self.calls)
        solver = self.solve.solver or (recommended() if rule.has_bands else general())
        with torch.no_grad(), forward_ad._set_fwd_grad_enabled(False):  # the derivative is that of the solution
            z, report = solver.solve(system, first, rtol)
        solved = None if report.all_converged else system.groups.spread(report.converged.to(z.device), z)
        if is_tracked(system.operands):
            z = gradient.attach(system, z, solved, adjoint_rtol, self.adjoint_reports.append)
        return z, report


def _checked(name: str, value: Any, kind: type, rule: str) -> Any:
    if value is not None and not isinstance(value, kind):
        checks.fail(name, f"be {rule}", value, "None is the default.", checks.KindError)
    return value


def _edges(initial: tuple[State, State] | None, learned: Tensor | None, batch: SequenceBatch, size: int) -> Tensor:
    """The states before and after each sequence, [2B, S], or [1, S] of zeros for all."""
    if initial is not None:
        return torch.cat([torch.cat(side, 1) for side in initial])
    if learned is None:
        return batch.rows.new_zeros(1, size)
    return learned[:, None].expand(2, batch.count, size).reshape(2 * batch.count, size)


def _start_rows(start_states: Any, cells: Mapping[str, Cell], batch: SequenceBatch) -> list[Tensor]:  # [N, S] each
    """The start states of each layer in the order of the batch, from those that a caller gave."""
    layers = list(start_states) if isinstance(start_states, tuple | list) else [start_states]
    if len(layers) != len(cells):
        checks.fail("start_states", f"have one entry per layer, {len(cells)} in all", len(layers))
    return [_layer_rows(entry, cell.state_sizes, batch) for entry, cell in zip(layers, cells.values(), strict=True)]


def _layer_rows(entry: Any, sizes: Sequence[int], batch: SequenceBatch) -> Tensor:
    states = list(entry) if isinstance(entry, tuple | list) else [entry]
    if len(states) != len(sizes) or not all(isinstance(s, Tensor) for s in states):
        rule = f"have {len(sizes)} tensors per layer, as return_states=True returns them"
        checks.fail("start_states", rule, type(entry).__name__, kind=checks.KindError)
    leading = batch.pad(batch.rows[:, :0]).shape[:-1]
    parts = []
    for state, size in zip(states, sizes, strict=True):
        if state.numel() != leading.numel() * size or state.shape[: len(leading)] != leading:
            checks.fail("start_states", f"have shape {(*leading, size)}", tuple(state.shape), kind=checks.ShapeError)
        parts.append(batch.unpad(state.detach().to(batch.rows).reshape(*leading, size)))
    return torch.cat(parts, 1)
