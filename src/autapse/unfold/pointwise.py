"""Pointwise: all steps at once, for cells that read no state."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.forms import State
from autapse.sequences.batch import SequenceBatch
from autapse.sequences.steps import at_ends
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
            final = (*(at_ends(rows, batch.sizes, held) for rows, held in zip(states, before, strict=True)), *beside)
        return Unfolded(tuple(batch.reverse(part) for part in states) if reverse else states, final)
