"""Enclosing: what cells share that take the step of another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import Cell, make_cell
from autapse.cells.named import cell_class, spec_of
from autapse.forms import State


class Enclosing(Cell):
    """A cell around an inner one, whose drive, weights, step and output it has. A subclass changes some of them.

    Args:
        cell: the other cell: a name with options, as in "gru" or "leakyrnn:tau=20.0", a class, or a pair of a class and
            a dict with its options. On the command line a name with options is in brackets.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, cell: Any = "rnn", **factory: Any):
        super().__init__(input_size, hidden_size, bias, **factory)
        kind, options = cell_class(cell)
        self.cell = spec_of(kind, options)
        self.inner = make_cell(kind, input_size, hidden_size, {"bias": bias, **self._factory}, options)
        if self.inner.stencil != (-1,) or self.inner.is_solved or self.inner.carried_sizes != self.inner.state_sizes:
            checks.fail("cell", "read the state of one step before, and solve no equation", self.cell, "Try gru.")

    def place(self, layer: int, layers: int) -> None:
        check_place("cell", self.inner, layers)

    def reset_parameters(self) -> None:
        self.inner.reset_parameters()

    def recurrent_matrices(self) -> list[Tensor]:
        return self.inner.recurrent_matrices()

    def drive(self, x: Tensor) -> Tensor:
        return self.inner.drive(x)

    def driver(self) -> Any:
        return self.inner.driver()

    def prepare(self) -> Any:
        return self.inner.prepare()

    def step(self, u: Tensor, state: State, weights: Any, t: int) -> State:
        return self.inner.step(u, state, weights, t)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return self.inner.state_sizes

    def output(self, state: State) -> Tensor:
        return self.inner.output(state[: len(self.inner.state_sizes)])

    def log_probability(self, state: State) -> Tensor | None:
        return self.inner.log_probability(state[: len(self.inner.state_sizes)])

    def penalty(self, state: State) -> Tensor | None:
        return self.inner.penalty(state[: len(self.inner.state_sizes)])

    @property
    def output_size(self) -> int:
        return self.inner.output_size

    @property
    def outputs_state(self) -> bool:
        return self.inner.outputs_state

    @property
    def output_reads_all(self) -> bool:
        return self.inner.output_reads_all

    @property
    def depends_on_position(self) -> bool:  # type: ignore[override]
        return self.inner.depends_on_position

    @property
    def draws(self) -> bool:  # type: ignore[override]
        return self.inner.draws


def check_place(argument: str, inner: Cell, layers: int) -> None:
    """Raise an error if an inner cell must know its place in a stack: only the cell around it has one."""
    if layers > 1 and inner.depends_on_place:
        rule = f"be the same in each of the {layers} layers"
        checks.fail(argument, rule, type(inner).__name__, "Use growth=1 for Dilated, time='position' for PhasedLSTM.")


def total(terms: Sequence[Tensor | None]) -> Tensor | None:  # [B] each
    """The sum of those that are there; None if there are none."""
    known = [term for term in terms if term is not None]
    return torch.stack(known).sum(0) if known else None
