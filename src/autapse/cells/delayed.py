"""Delayed: recurrent connections that reach back several steps, around any cell of the leaky form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import Cell, FormCell, make_cell, uniform_
from autapse.cells.named import CELLS, cell_class, spec_of
from autapse.forms import Delays, Form, Leaky
from autapse.native.operands import LONGEST_DELAY, MOST_DELAYS


class Delayed(FormCell):
    """h_t = α ∘ act(W·x_t + b + Σ_d R_d·h_{t−d}) + β ∘ h_{t−1}, the sum over the delays d

    The textbook's section 10.7.2 and figure 10.16 (Lin et al. 1996). W, b, α, β, act and the matrix of the shortest
    delay are those of another cell, whose step has the leaky form: RNN, IRNN, RIN, LeakyRNN, FastRNN, Antisymmetric,
    ERNN, OrthogonalRNN and SpectralRNN. Every other delay has a matrix of its own, uniform in ±1/√n at the start. A
    path from step to step then has T/d maps for T steps, d being the longest delay.

    A sequence carries the states of as many steps as the longest delay: these are h0 and h_n, the latest first. The
    compiled kernels run the recurrence.

    Args:
        cell: the other cell: a name with options, as in "rnn" or "leakyrnn:tau=20.0", a class, or a pair of a class and
            a dict with its options. On the command line a name with options is in brackets.
        delays: the delays d, in steps. At least one is above 1. A cell with several inner steps needs the delay 1.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        cell: Any = "rnn",
        delays: Sequence[int] = (1, 8),
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        kind, options = cell_class(cell)
        self.cell = spec_of(kind, options)
        self.delays = _checked_delays(delays)
        self.inner = make_cell(kind, input_size, hidden_size, {"bias": bias, **self._factory}, options)
        self._check_inner()
        self.stencil = (-1, *(-delay for delay in self.delays if delay > 1))
        self.weight_delayed = self._parameter(len(self.delays) - 1, hidden_size, hidden_size)
        uniform_(hidden_size, self.weight_delayed)

    @torch.no_grad()
    def _check_inner(self) -> None:
        plain = self.inner.stencil == (-1,) and type(self.inner).drive is Cell.drive and self.inner.outputs_state
        form = self.inner.fused(self.inner.prepare()) if plain else None
        if type(form) is not Leaky:
            rule = "have the leaky form, h' = α ∘ act(W·x + b + R·h) + β ∘ h"
            checks.fail("cell", rule, self.cell, "Try rnn, irnn, leakyrnn or antisymmetric.")
        if self.delays[0] > 1 and form.inner_steps > 1:
            checks.fail("delays", f"have the delay 1 for {self.cell}, which has inner steps", self.delays)

    def reset_parameters(self) -> None:
        self.inner.reset_parameters()
        uniform_(self.hidden_size, self.weight_delayed)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.inner.affine()  # type: ignore[return-value]

    def prepare(self) -> Form:
        base: Leaky = self.inner.prepare()
        matrices: Tensor = self.weight_delayed
        if self.delays[0] > 1:  # then the shortest delay has the matrix of the cell, and nothing is read at delay 1
            matrices = torch.cat([base.matrix.unsqueeze(0), matrices])
            base = replace(base, matrix=torch.zeros_like(base.matrix))
        return Delays(base, tuple(delay for delay in self.delays if delay > 1), matrices)

    def form(self) -> str:
        return Delays.name

    @property
    def depends_on_position(self) -> bool:  # type: ignore[override]
        return self.inner.depends_on_position or super().depends_on_position


def _checked_delays(delays: Any) -> tuple[int, ...]:
    if not isinstance(delays, Sequence) or isinstance(delays, str):
        checks.fail("delays", "be a list of steps, as in (1, 8)", delays, kind=checks.KindError)
    steps = sorted(checks.integer("delays", delay, minimum=1) for delay in delays)
    if len(set(steps)) < len(steps):
        checks.fail("delays", "have each delay once", tuple(delays))
    if not steps or steps[-1] == 1:
        checks.fail("delays", "have a delay above 1", tuple(delays), "Without one, use the cell itself.")
    if len(steps) > MOST_DELAYS or steps[-1] > LONGEST_DELAY:
        checks.fail("delays", f"be at most {MOST_DELAYS}, of at most {LONGEST_DELAY} steps", tuple(delays))
    return tuple(steps)


CELLS[Delayed.__name__.lower()] = Delayed  # a deep cell may have delays
