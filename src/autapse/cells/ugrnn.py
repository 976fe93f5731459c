"""The update-gate RNN."""

from __future__ import annotations

from typing import Any

import torch

from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.forms import Form, UpdateGate


class UGRNN(FormCell):
    """c = tanh(W_c·x + U_c·h + b_c), g = σ(W_g·x + U_g·h + b_g); h' = g ∘ h + (1 − g) ∘ c

    A baseline of the ERNN paper (Collins et al. 2017). b_g starts at 1, b_c at 0; the matrices start uniform in ±1/√n.
    """

    form_class = UpdateGate
    unit_matrices = ("weight_hh",)

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **factory: Any):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.weight_ih = self._parameter(2 * hidden_size, input_size)  # W_c over W_g
        self.weight_hh = self._parameter(2 * hidden_size, hidden_size)
        self.bias_h = self._bias(2 * hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        if self.bias_h is not None:
            zeros_(self.bias_h)
            self.bias_h[self.hidden_size :] = 1.0

    def prepare(self) -> Form:
        return UpdateGate(self.weight_hh)
