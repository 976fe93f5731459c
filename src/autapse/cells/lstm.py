"""The long short-term memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, both
from autapse.forms import Form, LongShortTerm


class LSTM(FormCell):
    """i, f, o = σ(W·x + b_ih + R·h + b_hh), g = tanh(…); c' = f ∘ c + i ∘ g; h' = o ∘ tanh(c')

    torch.nn.LSTM's equations, parameters, names and initialisation; the textbook's equations 10.8–10.11.

    Args:
        peepholes: add p_i ∘ c and p_f ∘ c to the gates i and f, and p_o ∘ c' to o.
        forget_bias: initial input bias of the forget gate, whose recurrent bias is then 0; the AntisymmetricRNN paper
            uses 1. None: as torch.nn.LSTM.
        proj_size: size to which h' is projected, as in torch.nn.LSTM; 0: no projection.
    """

    form_class = LongShortTerm
    unit_matrices = ("weight_hh",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        peepholes: bool = False,
        forget_bias: float | None = None,
        proj_size: int = 0,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.peepholes = checks.boolean("peepholes", peepholes)
        self.forget_bias = None if forget_bias is None else checks.number("forget_bias", forget_bias)
        if forget_bias is not None and not bias:
            checks.fail("forget_bias", "be used with bias=True", forget_bias, "Omit one of the two.")
        self.proj_size = checks.integer("proj_size", proj_size, minimum=0)
        if proj_size >= hidden_size:
            checks.fail("proj_size", f"be smaller than hidden_size = {hidden_size}", proj_size)
        self.weight_ih = self._parameter(4 * hidden_size, input_size)
        self.weight_hh = self._parameter(4 * hidden_size, self.output_size)
        self.bias_ih = self._bias(4 * hidden_size)
        self.bias_hh = self._bias(4 * hidden_size)
        self.weight_hr = self._parameter(proj_size, hidden_size) if proj_size else None
        self.weight_peephole = self._parameter(3, hidden_size) if peepholes else None
        self.reset_parameters()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size, self.hidden_size)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.forget_bias is not None and self.bias_ih is not None and self.bias_hh is not None:
            forget = slice(self.hidden_size, 2 * self.hidden_size)
            self.bias_ih[forget] = self.forget_bias
            self.bias_hh[forget] = 0.0

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, both(self.bias_ih, self.bias_hh)

    def prepare(self) -> Form:
        return LongShortTerm(self.weight_hh, self.weight_peephole, self.weight_hr)
