"""A step without feedback, for a controller that has no memory of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse.cells.base import Cell
from autapse.forms import State


class FeedForward(Cell):
    """h' = tanh(W·x + b)"""

    depends_on_position = False

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **factory: Any):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, self.bias_h

    def step(self, u: Tensor, state: State, weights: Any, t: int) -> State:
        return (torch.tanh(u),)
