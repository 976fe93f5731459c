"""Unfold: how a cell is run over sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.forms import State
from autapse.sequences.batch import SequenceBatch
from autapse.solve import SolveReport


class Unfolded(NamedTuple):
    """The states of a cell over a batch of sequences.

    Attributes:
        states: one [N, S] per state, after each step.
        final: one [B, S] per carried tensor, at each sequence's own end.
        report: one entry per sequence. None if no equations were solved.
    """

    states: State
    final: State
    report: SolveReport | None = None


class Unfold(ABC):
    """A strategy that runs a cell over sequences. The cell's stencil decides the default strategy of a layer."""

    unsolved: ClassVar[str] = "Their states are kept as they are."
    """What happens to sequences that were not solved, and what to try; part of the warning."""
    may_use_torch: bool = False
    """Whether torch's own op may replace a call, if torch has one for the layer."""

    @abstractmethod
    def check(self, cell: type[Cell] | Cell) -> None:
        """Raise an error if this strategy does not support the cell."""

    def open(
        self,
        cells: Mapping[str, Cell],
        batch: SequenceBatch,
        training: bool,
        start_states: Any = None,
        keys: Any = None,
    ) -> Unfold:
        """The strategy for one call of a layer, whose `run` is called for each cell."""
        if start_states is not None or keys is not None:
            name, cell = "keys" if start_states is None else "start_states", type(next(iter(cells.values()))).__name__
            checks.fail(name, f"be None for {cell}: only implicit layers start from a solution", "a value")
        return self

    def for_layer(self) -> Unfold:
        """The strategy of a new layer: the same object, unless it has a state, which belongs to one layer."""
        return self

    def words(self) -> list[str]:
        """name=value of each setting that is not the default, for the repr of a layer."""
        return []

    @abstractmethod
    def run(
        self,
        cell: Cell,
        rows: Tensor,  # [N, D], the input of all steps, in the order of the batch
        batch: SequenceBatch,  # the sequence and the step of each row
        initial: Any,  # one [B, S] per carried tensor; if the cell looks ahead, a pair of such states, or None
        *,
        layer: int = 0,  # index of the layer in the stack
        start: int = 0,  # position of the first step
        reverse: bool = False,  # from each sequence's own end to its first step
        keep: bool = True,  # all states of each step, or only what the cell's output needs
    ) -> Unfolded:
        """The states of one cell."""


def name_of(cell: type[Cell] | Cell) -> str:
    """The name of a cell's class."""
    return (cell if isinstance(cell, type) else type(cell)).__name__
