"""Pointwise: all steps at once, for cells that read no state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.forms import State
from autapse.sequences.batch import SequenceBatch
from autapse.unfold.base import Unfold, Unfolded, name_of
from autapse.unfold.reference import scan_reference


@dataclass(frozen=True)
class Pointwise(Unfold):
    """All steps at once, for cells with an empty stencil. The steps are independent of each other.

    >>> output, h_n = autapse.Feedforward(3, 4)(torch.zeros(100, 2, 3))
    >>> bool((output[-1] == h_n[0]).all())
    True
    """

    def check(self, cell: type[Cell] | Cell) -> None:
        if cell.stencil:
            rule = f"be None: {name_of(cell)} has the stencil {cell.stencil}, and Pointwise() supports only ()"
            checks.fail("unfold", rule, self)

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
        rows = batch.reverse(rows) if reverse else rows
        if cell.depends_on_position:
            states, final = scan_reference(cell, rows, initial, batch.sizes, start)
        else:
            drive, beside = cell.windowed(cell.drive(rows), initial, batch.sizes)
            states = cell.checked(cell.step(drive, (), cell.prepare(), start), len(rows))
            before = initial[: len(states)]
            final = (*(_at_ends(*both, batch) for both in zip(states, before, strict=True)), *beside)
        return Unfolded(tuple(batch.reverse(part) for part in states) if reverse else states, final)


def _at_ends(states: Tensor, initial: Tensor, batch: SequenceBatch) -> Tensor:  # [N, S], [B, S] -> [B, S]
    """The states after the last step of each sequence. Those without steps come last, and keep the initial state."""
    if not batch.sizes:
        return initial
    if batch.even:
        ends = states[len(states) - batch.sizes[-1] :]
    else:
        sizes = torch.tensor(batch.sizes)
        lengths = batch.lengths[: batch.sizes[0]]
        rows = (sizes.cumsum(0) - sizes)[lengths - 1] + torch.arange(len(lengths))
        ends = states.index_select(0, rows.to(states.device))
    return ends if len(ends) == batch.count else torch.cat([ends, initial[len(ends) :].to(ends.dtype)])
