"""The Recurrent Identity Network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, zeros_
from autapse.forms import Form, Leaky, Transitions


class RIN(FormCell):
    """h' = ReLU(W·x + (U + I)·h + b), the identity fixed

    RIN paper, equations 12–13. W and U start normal with standard deviation 10⁻³, b = 0 (section 3.1). With
    `transitions=2` it is RIN-DT, equations 26–27: g = ReLU(W·x + (U₁ + I)·h + b₁), h' = ReLU((U₂ + I)·g + b₂).

    Args:
        transitions: number of nonlinear maps per step; all but the first have no input.
    """

    unit_matrices = ("weight_hh", "weight_deep")

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, transitions: int = 1, **factory: Any):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.transitions = checks.integer("transitions", transitions, minimum=1)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        deep = transitions - 1
        self.weight_deep = self._parameter(deep, hidden_size, hidden_size) if deep else None  # U₂ …
        self.bias_deep = self._bias(deep, hidden_size) if deep else None
        self.reset_parameters()

    def form(self) -> str:
        return Leaky.name if self.transitions == 1 else Transitions.name

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for weight in (self.weight_ih, self.weight_hh, self.weight_deep):
            if weight is not None:
                weight.normal_(std=1e-3)
        zeros_(self.bias_h, self.bias_deep)

    def recurrent_matrices(self) -> list[Tensor]:
        identity = torch.eye(self.hidden_size, dtype=self.weight_hh.dtype, device=self.weight_hh.device)
        return [weight + identity for weight in super().recurrent_matrices()]

    def prepare(self) -> Form:
        identity = torch.eye(self.hidden_size, dtype=self.weight_hh.dtype, device=self.weight_hh.device)
        if self.weight_deep is None:
            return Leaky(self.weight_hh + identity, "relu")
        biases = self.weight_deep.new_zeros(self.weight_deep.shape[:2]) if self.bias_deep is None else self.bias_deep
        return Transitions((self.weight_hh + identity, *(self.weight_deep + identity)), tuple(biases), "relu")
