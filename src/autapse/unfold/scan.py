"""Scan: one step after the other, by the native kernels where they can, else by the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from autapse import checks
from autapse.cells import Cell
from autapse.forms import State
from autapse.sequences.batch import SequenceBatch
from autapse.solve.report import merge
from autapse.unfold.base import Unfold, Unfolded
from autapse.unfold.fused import can_fuse, scan_fused
from autapse.unfold.reference import Scanned, scan_reference
from autapse.unfold.unchanged import Unchanged


@dataclass(frozen=True)
class Scan(Unfold):
    """The steps of a cell whose stencil looks back, each solved where it is an equilibrium.

    With `checkpoint_every=k` only every k-th state is kept, and the backward pass computes k steps at a time again. It
    then holds T/k + k states instead of T.
    """

    checkpoint_every: int | None = None

    def __post_init__(self) -> None:
        if self.checkpoint_every is not None:
            checks.integer("checkpoint_every", self.checkpoint_every, minimum=1)

    def check(self, cell: type[Cell]) -> None:
        if max(cell.stencil) > 0:
            checks.fail("unfold", f"be left out: {cell.__name__} looks ahead, so that a scan cannot serve it", self)

    def words(self) -> list[str]:
        return [] if self.checkpoint_every is None else [f"checkpoint_every={self.checkpoint_every}"]

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
        sizes, weights = batch.sizes, cell.prepare()  # weights once, also where the sequence goes in pieces
        form = can_fuse(cell, weights, rows, initial)
        whole = self._is_whole(sizes)
        # Where all lengths are the same, a scan goes from the end by itself; elsewhere the rows are turned.
        turned = reverse and not (whole and batch.even)
        rows = batch.reverse(rows) if turned else rows
        run = scan_reference if form is None else scan_fused
        arguments = (cell, rows, initial, sizes, start, keep, weights if form is None else form)
        scanned = run(*arguments, reverse and not turned) if whole else self._in_pieces(run, *arguments)
        states = tuple(batch.reverse(part) for part in scanned.states) if turned else scanned.states
        report = merge(scanned.reports, batch.count, worst=True) if scanned.reports else None
        return Unfolded(states, scanned.final, report)

    def _is_whole(self, sizes: Sequence[int]) -> bool:
        """Whether the backward pass has nothing to compute again."""
        if self.checkpoint_every is None or self.checkpoint_every >= len(sizes):
            return True
        # Recomputation needs saved tensor hooks, which torch.func and dual tensors cannot have: they keep everything.
        transformed = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
        return transformed or not torch.is_grad_enabled()

    def _in_pieces(
        self, run: Any, cell: Cell, x: Tensor, state: State, sizes: Sequence[int], start: int, keep: bool, weights: Any
    ) -> Scanned:
        """`run` on some steps at a time, which the backward pass runs again."""
        inputs, every = (x, *state), self.checkpoint_every or 1
        unchanged = Unchanged([*cell.parameters(), *cell.buffers(), *inputs])

        def run_unchanged(*arguments: Any) -> Any:
            unchanged.check([*cell.parameters(), *cell.buffers(), *inputs])
            return run(*arguments)

        pieces = [sizes[n : n + every] for n in range(0, len(sizes), every)]
        traces: list[Scanned] = []
        ended: list[State] = []
        for n, (piece, rows) in enumerate(zip(pieces, x.split([sum(piece) for piece in pieces]), strict=True)):
            # Sequences that ended in an earlier piece leave, so that a piece is a batch of its own.
            ended.append(tuple(s[piece[0] :] for s in state))
            state = tuple(s[: piece[0]] for s in state)
            arguments = (cell, rows, state, piece, start + n * every, keep, weights)
            traces.append(checkpoint(run_unchanged, *arguments, use_reentrant=False))
            state = traces[-1].final
        states = tuple(torch.cat(column) for column in zip(*(trace.states for trace in traces), strict=True))
        final = tuple(torch.cat(column) for column in zip(state, *reversed(ended), strict=True))
        return Scanned(states, final, [report for trace in traces for report in trace.reports])
