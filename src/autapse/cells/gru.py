"""The gated recurrent unit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell
from autapse.forms import Form, GatedRecurrent


class GRU(FormCell):
    """r, z = σ(W·x + b_ih + R·h + b_hh); n = tanh(W_n·x + b_in + r ∘ (R_n·h + b_hn)); h' = (1 − z) ∘ n + z ∘ h

    torch.nn.GRU's equations, parameters, names and initialisation. With `reset="before"`, n = tanh(W_n·x + b_in + b_hn
    + R_n·(r ∘ h)), as in the textbook's equations 10.12–10.14 and in Cho et al. 2014.

    Args:
        reset: where the reset gate r acts: "after" the product with R_n, or "before" it.
    """

    form_class = GatedRecurrent
    unit_matrices = ("weight_hh",)

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, reset: str = "after", **factory: Any):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.reset = checks.one_of("reset", reset, ("after", "before"))
        self.weight_ih = self._parameter(3 * hidden_size, input_size)
        self.weight_hh = self._parameter(3 * hidden_size, hidden_size)
        self.bias_ih = self._bias(3 * hidden_size)
        self.bias_hh = self._bias(3 * hidden_size)
        self.reset_parameters()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        if self.bias_ih is None or self.bias_hh is None:
            return self.weight_ih, None
        outside: Tensor = self.bias_hh
        if self.reset == "after":  # b_hn is inside the reset gate
            outside = torch.cat([outside[: 2 * self.hidden_size], outside.new_zeros(self.hidden_size)])
        return self.weight_ih, self.bias_ih + outside

    def prepare(self) -> Form:
        after = self.reset == "after"
        inside = self.bias_hh[2 * self.hidden_size :] if after and self.bias_hh is not None else None
        return GatedRecurrent(self.weight_hh, inside, after)
