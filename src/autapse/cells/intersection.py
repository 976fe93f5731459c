"""The Intersection RNN: two coupled recurrences, one over time and one over depth."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.forms import Crossing, Form


class Intersection(FormCell):
    """h' = g_h ∘ h + (1 − g_h) ∘ tanh(W_h·x + R_h·h + b_h); y' = g_y ∘ v + (1 − g_y) ∘ ReLU(W_y·x + R_y·h + b_y)

    The +RNN of Collins, Sohl-Dickstein and Sussillo 2017, "Capacity and trainability in recurrent neural networks". The
    gates are g = σ(W_g·x + R_g·h + b_g), each with its own parameters. The output y passes on the input of the layer as
    h passes on the state, so a stack has gated paths over time and over depth. v is the input x if it has as many
    features as there are units. Otherwise v = P·x with a learned P (ours: the paper's layers are all of one size; in
    TensorFlow's cell the gates of such a layer read P·x too, here they read x).

    The states are y, which is the output and which no step reads, and h. Both gates' biases start at 1 and the others
    at 0, as in UGRNN; all matrices start uniform in ±1/√n (ours).
    """

    form_class = Crossing
    unit_matrices = ("weight_hh",)

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

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, self.hidden_size)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        W, P, b = self.weight_ih, self.weight_pass, self.bias_h
        passing = torch.eye(self.hidden_size, dtype=W.dtype, device=W.device) if P is None else P
        return torch.cat([W, passing]), None if b is None else torch.cat([b, b.new_zeros(self.hidden_size)])

    def prepare(self) -> Form:
        return Crossing(self.weight_hh)
