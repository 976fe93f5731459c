"""The Intersection RNN: two coupled recurrences, one over time and one over depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.cells.base import FormCell, Scans, uniform_, zeros_
from autapse.forms import Form, State, UpdateGate
from autapse.forms.base import rows
from autapse.sequences.steps import at_ends, rows_of_steps


@dataclass(frozen=True)
class Crossing(Form):
    """ŷ = ReLU(u_y + R_y·h), g_y = σ(u_gy + R_gy·h); y' = g_y ∘ v + (1 − g_y) ∘ ŷ; h' as UpdateGate

    The drive has u_h, u_gh, u_y, u_gy and v.
    """

    name = "intersection"

    over_time: UpdateGate  # of h
    matrix: Tensor  # R_y over R_gy, [2H, H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        _, h = state
        over_time, over_depth = u.tensor_split([2 * h.shape[-1]], dim=-1)
        return self.output(over_depth, h), *self.over_time.step(over_time, (h,), t)

    def output(self, u: Tensor, h: Tensor) -> Tensor:  # [B, 3H], [B, H] -> [B, H]
        """y', from u_y, u_gy and v, and from the state before the step."""
        candidate, gate, v = self._gates(u, h)
        return gate * v + (1 - gate) * candidate

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u, v = u.tensor_split([2 * h.shape[-1]], dim=-1)
        a, a_gate = torch.addmm(u, h, self.matrix.t()).chunk(2, dim=-1)
        return torch.relu(a), torch.sigmoid(a_gate), v

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        _, h = state
        over_time, over_depth = u.tensor_split([2 * h.shape[-1]], dim=-1)
        candidate, gate, v = self._gates(over_depth, h)
        R_y, R_gate = self.matrix.chunk(2)
        by_h = rows((v - candidate) * gate * (1 - gate), R_gate) + rows((1 - gate) * (candidate > 0), R_y)
        total = torch.cat([by_h, self.over_time.jacobian(over_time, (h,), t)], dim=1)
        return torch.cat([torch.zeros_like(total), total], dim=2)  # nothing reads y


class Intersection(FormCell):
    """h' = g_h ∘ h + (1 − g_h) ∘ tanh(W_h·x + R_h·h + b_h); y' = g_y ∘ v + (1 − g_y) ∘ ReLU(W_y·x + R_y·h + b_y)

    The +RNN of Collins, Sohl-Dickstein and Sussillo 2017, "Capacity and trainability in recurrent neural networks". The
    gates are g = σ(W_g·x + R_g·h + b_g), each with its own parameters. The output y passes on the input of the layer as
    h passes on the state, so a stack has gated paths over time and over depth. v is the input x if it has as many
    features as there are units. Otherwise v = P·x with a learned P (ours: the paper's layers are all of one size).

    The states are y, which is the output and which no step reads, and h. Both gates' biases start at 1 and the others
    at 0, as in UGRNN; all matrices start uniform in ±1/√n (ours).

    The recurrence of h is that of UGRNN, and runs on its kernel. All y are then computed at once.
    """

    form_class = Crossing

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **factory: Any):
        super().__init__(input_size, hidden_size, bias, **factory)
        # Rows: candidate and gate of h, candidate and gate of y.
        self.weight_ih = self._parameter(4 * hidden_size, input_size)
        self.weight_hh = self._parameter(4 * hidden_size, hidden_size)
        self.bias_h = self._bias(4 * hidden_size)
        self.weight_pass = None if input_size == hidden_size else self._parameter(hidden_size, input_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, *(p for p in self.parameters() if p is not self.bias_h))
        if self.bias_h is not None:
            zeros_(self.bias_h)
            self.bias_h.unflatten(0, (4, -1))[1::2] = 1.0

    def recurrent_matrices(self) -> list[Tensor]:
        return list(self.weight_hh.split(self.hidden_size))

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, self.hidden_size)

    def drive(self, x: Tensor) -> Tensor:
        passed = x if self.weight_pass is None else F.linear(x, self.weight_pass)
        return torch.cat([F.linear(x, self.weight_ih, self.bias_h), passed], dim=-1)

    def affine(self) -> None:  # type: ignore[override]
        """None: a part of the drive is the input itself."""

    def prepare(self) -> Crossing:
        over_time, over_depth = self.weight_hh.chunk(2)
        return Crossing(UpdateGate(over_time), over_depth)

    @property
    def runs_in_parts(self) -> bool:  # type: ignore[override]
        return type(self).step is FormCell.step

    def in_parts(self, x: Tensor, state: State, sizes: Sequence[int], start: int, parts: Scans) -> tuple[State, State]:
        y, h = state
        form = self.prepare()
        over_time, over_depth = self.drive(x).tensor_split([2 * self.hidden_size], dim=-1)
        (after,), (h_n,) = parts.form(form.over_time, over_time, (h,), sizes)
        before = rows_of_steps(after, sizes, h, range(-1, len(sizes) - 1), sizes)
        outputs = form.output(over_depth, before)
        return (outputs, after), (at_ends(outputs, sizes, y), h_n)
