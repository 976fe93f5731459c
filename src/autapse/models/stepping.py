"""A layer one step at a time, for sequences whose next input depends on the last output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.solve import SolveReport
from autapse.solve.report import merge


class Stepping(Protocol):
    """y_t = stepping(x_t), with the states inside."""

    def __call__(self, x: Tensor) -> Tensor: ...  # [B, D] -> [B, H]

    def select(self, index: Tensor) -> None: ...  # [B'] the sequences that continue, in a new order

    def report(self) -> None: ...  # let the layer's reports be those of all steps


class StepReports:
    """The reports of several calls of a layer on sequences of one batch, as one report for each of its cells.

    Args:
        layer: the layer.
        count: number of sequences.
    """

    def __init__(self, layer: Recurrent, count: int) -> None:
        self._layer, self._count = layer, count
        self._calls: list[tuple[list[SolveReport], Tensor]] = []

    def add(self, rows: Tensor) -> None:  # [N] the sequence of each row of the last call
        """Include the reports of the last call."""
        if self._layer.reports:
            self._calls.append((self._layer.reports, rows.cpu()))

    def give(self) -> None:
        """Let the layer's reports be those of all calls: for each sequence the worst."""
        merged = []
        for n in range(len(self._calls[0][0]) if self._calls else 0):
            parts = [_distinct(reports[n], rows) for reports, rows in self._calls]
            reports, rows = zip(*parts, strict=True)
            merged.append(merge(reports, self._count, rows, worst=True))
        self._layer.reports = merged


class Differentiable:
    """Steps with gradients: each is a call of the layer.

    Args:
        layer: a layer that looks back only.
        count: number of sequences.
        h0: its initial state; None for zeros.
    """

    def __init__(self, layer: Recurrent, count: int, h0: Any = None) -> None:
        self._layer, self._state, self._position = layer, h0, 0
        self._rows, self._reports = torch.arange(count), StepReports(layer, count)

    def __call__(self, x: Tensor) -> Tensor:  # [B, D] -> [B, H]
        axis = 1 if self._layer.batch_first else 0
        output, self._state = self._layer(x.unsqueeze(axis), self._state, start=self._position)
        self._reports.add(self._rows)
        self._position += 1
        return output.squeeze(axis)

    def select(self, index: Tensor) -> None:  # [B']
        """Continue with some of the sequences, in the order of `index`."""
        self._rows = self._rows[index.cpu()]
        self._state = mapped(lambda state: state.index_select(1, index.to(state.device)), self._state)

    def report(self) -> None:
        """Let the layer's reports be those of all steps, in the first order of the sequences."""
        self._reports.give()


class Streaming:
    """Steps without gradients, by a stream of the layer: weights are prepared once.

    Args:
        layer: a layer that looks back only.
        count: number of sequences.
        h0: its initial state; None for zeros.
    """

    def __init__(self, layer: Recurrent, count: int, h0: Any = None) -> None:
        self._layer, self._stream, self._count = layer, layer.stream(count), count
        self._stream.reset(h0)

    def __call__(self, x: Tensor) -> Tensor:  # [B, D] -> [B, H]
        # A stream has a fixed number of sequences. After those that continue come others, which do not matter.
        return self._stream(F.pad(x, (0, 0, 0, self._count - len(x))))[: len(x)]

    def select(self, index: Tensor) -> None:  # [B']
        """Continue with these sequences, at most as many as at first; one may occur several times."""
        self._stream.select(F.pad(index, (0, self._count - len(index))))

    def report(self) -> None:
        """A stream has no reports; those of an earlier call do not belong to these steps."""
        self._layer.reports = []


def _distinct(report: SolveReport, rows: Tensor) -> tuple[SolveReport, Tensor]:
    """The report with each sequence once: its worst entry."""
    if len(rows.unique()) == len(rows):
        return report, rows
    places: dict[int, int] = {}
    for place in torch.argsort(report.reason, descending=True, stable=True).tolist():
        places.setdefault(int(rows[place]), place)
    chosen = torch.tensor(list(places.values()))
    return report.take(chosen), rows[chosen]


def check_causal(layer: Recurrent, name: str = "cell") -> None:
    """Raise an error if a layer cannot generate: its next input depends on its last output."""
    if layer.bidirectional:
        checks.fail("bidirectional", "be False for a network that generates", True)
    if layer.looks_ahead:
        checks.fail(name, "look back only, to generate one step at a time", layer.cell_class.__name__, "Try gru.")


def mapped(change: Callable[[Tensor], Tensor], state: Any) -> Any:
    """A state with `change` applied to each of its tensors. A state is None, a tensor or a tuple of states."""
    if state is None or isinstance(state, Tensor):
        return None if state is None else change(state)
    return tuple(mapped(change, part) for part in state)


def at_every_step(layer: Recurrent, states: list[tuple[Tensor, ...]]) -> Any:
    """The states after every step as initial states of so many sequences: step t of sequence b is row b·T + t.

    Args:
        layer: a layer that carries one step, and reads in one direction.
        states: what the layer gave with `return_states`, [B, T, 1, H] or [T, B, 1, H] per layer and state.

    Returns:
        h0 for B·T sequences.
    """

    def rows(state: Tensor) -> Tensor:  # [1, B·T, H]
        state = state if layer.batch_first else state.transpose(0, 1)
        return state.reshape(1, -1, state.shape[-1])

    per_state = [[rows(state) for state in column] for column in zip(*states, strict=True)]
    if isinstance(layer.hidden_size, list):
        joined: list[Any] = [tuple(column) for column in per_state]
    else:
        joined = [torch.cat(column) for column in per_state]
    return joined[0] if len(joined) == 1 else tuple(joined)
