"""Scan: one step after the other, by the native kernels if possible, else by the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from autapse import checks
from autapse.cells import Cell
from autapse.cells.base import looks_ahead
from autapse.forms import Scanned, State
from autapse.native.dispatch import kernels_serve
from autapse.sequences.batch import SequenceBatch
from autapse.solve import SolveReport
from autapse.solve.report import merge
from autapse.unfold.base import Unfold, Unfolded, name_of
from autapse.unfold.fused import prepare, scan_fused, tensors_of
from autapse.unfold.reference import scan_reference
from autapse.unfold.unchanged import Unchanged


@dataclass(frozen=True)
class Scan(Unfold):
    """Step after step, for cells that look back. Each step of an equilibrium is solved.

    Args:
        checkpoint_every: k, to keep only every k-th state and to recompute the others in the backward pass, k steps at
            a time: T/k + k states in memory instead of T. None: keep all.
        clip_hidden: bound of each entry of the gradient at a state. The backward pass clips the gradient at each step,
            and passes it on clipped (Graves 2013). None: no clipping.
        information_flow: weight of the regulariser Ω of Pascanu et al. (2013), whose gradient the backward pass adds:
            the mean over steps of (‖g_t·J_t‖ / ‖g_t‖ − 1)², with g_t = ∂L/∂h_t and J_t = ∂h_t/∂h_{t−1}. It keeps the
            length of the back-propagated vectors.

    >>> output, h_n = autapse.GRU(3, 4, checkpoint_every=10)(torch.zeros(100, 2, 3))
    >>> output.sum().backward()
    """

    checkpoint_every: int | None = None
    clip_hidden: float | None = None
    information_flow: float = 0.0

    def __post_init__(self) -> None:
        if self.checkpoint_every is not None:
            checks.integer("checkpoint_every", self.checkpoint_every, minimum=1)
        if self.clip_hidden is not None:
            checks.number("clip_hidden", self.clip_hidden, above=0.0)
        checks.number("information_flow", self.information_flow, low=0.0)
        if self.information_flow and self.checkpoint_every is not None:
            checks.fail("information_flow", "be 0 with checkpoint_every: it needs all states", self.information_flow)

    def check(self, cell: type[Cell] | Cell) -> None:
        if looks_ahead(cell):
            checks.fail("unfold", f"be None: {name_of(cell)} looks ahead, and Scan() cannot", self)
        if self.information_flow and (cell.is_solved or cell.draws or -1 not in cell.stencil):
            rule = f"be 0 for {name_of(cell)}: it needs steps that are explicit functions of the state before"
            checks.fail("information_flow", rule, self.information_flow)

    def words(self) -> list[str]:
        return [f"{f.name}={value!r}" for f in fields(self) if (value := getattr(self, f.name)) != f.default]

    def open(
        self,
        cells: Mapping[str, Cell],
        batch: SequenceBatch,
        training: bool,
        start_states: Any = None,
        keys: Any = None,
    ) -> ScanCall:
        super().open(cells, batch, training, start_states, keys)
        explicit = [cell for cell in cells.values() if not cell.is_solved]
        if not explicit:  # neither a kernel nor torch can solve a step
            return ScanCall(self, native=False)
        tensors = [tensor for cell in explicit for tensor in tensors_of(cell)]
        native = kernels_serve(batch.rows, *tensors, have_tangents=True)
        return ScanCall(self, native, may_use_torch=not native and self == Scan())

    def run(self, cell: Cell, rows: Tensor, batch: SequenceBatch, initial: State, **options: Any) -> Unfolded:
        return self.open({"l0": cell}, batch, False).run(cell, rows, batch, initial, **options)


@dataclass(eq=False)
class ScanCall(Unfold):
    """`Scan` for one call of a layer."""

    scan: Scan
    native: bool  # whether the native kernels can run this call
    may_use_torch: bool = False

    def check(self, cell: type[Cell] | Cell) -> None:
        self.scan.check(cell)

    def run(
        self,
        cell: Cell,
        rows: Tensor,
        batch: SequenceBatch,
        initial: State,
        *,
        layer: int = 0,
        start: int = 0,
        reverse: bool = False,
        keep: bool = True,
    ) -> Unfolded:
        whole = self._is_whole(batch.sizes)
        # If all lengths are the same, a scan can start at the end. Otherwise the rows are reversed.
        turned = reverse and not (whole and batch.even)
        rows = batch.reverse(rows) if turned else rows
        run = scan_fused if self.native else scan_reference
        reports: list[SolveReport] = []
        arguments = (cell, rows, initial, batch.sizes, start, keep)
        if whole:
            states, final = run(*arguments, None, reverse and not turned, reports.append, self._clip, self._flow(batch))
        else:
            states, final = self._in_pieces(run, reports, *arguments)
        states = tuple(batch.reverse(part) for part in states) if turned else states
        solved = reports or cell.is_solved  # without steps there are no reports
        return Unfolded(states, final, merge(reports, batch.count, worst=True) if solved else None)

    @property
    def _clip(self) -> float:
        return math.inf if self.scan.clip_hidden is None else self.scan.clip_hidden

    def _flow(self, batch: SequenceBatch) -> float:
        """The weight of each term: there is one per step, apart from the first of each sequence."""
        weight = self.scan.information_flow
        terms = sum(batch.sizes[1:]) if weight else 0
        return weight / terms if terms else 0.0

    def _is_whole(self, sizes: Sequence[int]) -> bool:
        """Whether the backward pass recomputes nothing."""
        every = self.scan.checkpoint_every
        if every is None or every >= len(sizes):
            return True
        # Recomputation needs saved tensor hooks. torch.func and dual tensors do not support them, and keep all states.
        transformed = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
        return transformed or not torch.is_grad_enabled()

    def _in_pieces(
        self,
        run: Any,
        reports: list[SolveReport],
        cell: Cell,
        x: Tensor,
        state: State,
        sizes: Sequence[int],
        start: int,
        keep: bool,
    ) -> Scanned:
        """`run` on a few steps at a time. The backward pass runs them again."""
        inputs, every = (x, *state), self.scan.checkpoint_every or 1
        weights = prepare(cell) if self.native else cell.prepare()  # once for all pieces
        unchanged = Unchanged([*cell.parameters(), *cell.buffers(), *inputs])

        def run_unchanged(*arguments: Any) -> Any:
            unchanged.check([*cell.parameters(), *cell.buffers(), *inputs])
            reports: list[SolveReport] = []
            return *run(*arguments, note=reports.append, clip=self._clip), reports

        pieces = [sizes[n : n + every] for n in range(0, len(sizes), every)]
        traces: list[State] = []
        ended: list[State] = []
        for n, (piece, rows) in enumerate(zip(pieces, x.split([sum(piece) for piece in pieces]), strict=True)):
            # Sequences that ended in an earlier piece are dropped, so that each piece is a batch.
            ended.append(tuple(s[piece[0] :] for s in state))
            state = tuple(s[: piece[0]] for s in state)
            arguments = (cell, rows, state, piece, start + n * every, keep, weights)
            trace, state, noted = checkpoint(run_unchanged, *arguments, use_reentrant=False)
            traces.append(trace)
            reports += noted  # those of the backward pass are dropped with its states
        states = tuple(torch.cat(column) for column in zip(*traces, strict=True))
        final = tuple(torch.cat(column) for column in zip(state, *reversed(ended), strict=True))
        return states, final
