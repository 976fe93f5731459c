"""The plain recurrent network, and the one that starts at the identity."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, both, zeros_
from autapse.forms import ACTIVATIONS, Form, Leaky


class RNN(FormCell):
    """h' = act(W·x + b_ih + R·h + b_hh)

    The textbook's equation 10.4, with torch.nn.RNN's parameters, names and initialisation.

    Args:
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
    """

    form_class = Leaky
    unit_matrices = ("weight_hh",)

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", **factory: Any
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.bias_ih = self._bias(hidden_size)
        self.bias_hh = self._bias(hidden_size)
        self.reset_parameters()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, both(self.bias_ih, self.bias_hh)

    def prepare(self) -> Form:
        return Leaky(self.weight_hh, self.nonlinearity)


class IRNN(FormCell):
    """h' = ReLU(W·x + R·h + b), R starting as the identity

    A baseline of the RIN paper (section 3.1; Le et al. 2015). W starts normal with standard deviation 10⁻³, b = 0.
    """

    form_class = Leaky
    unit_matrices = ("weight_hh",)

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **factory: Any):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.weight_ih.normal_(std=1e-3)
        torch.nn.init.eye_(self.weight_hh)
        zeros_(self.bias_h)

    def prepare(self) -> Form:
        return Leaky(self.weight_hh, "relu")
