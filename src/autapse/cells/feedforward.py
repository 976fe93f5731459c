"""A network without recurrence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import Cell, uniform_, zeros_
from autapse.forms import ACTIVATIONS, State


class Feedforward(Cell):
    """h' = act(W·x + b)

    No state is read, so all steps of a sequence are computed at once, and h0 has no effect. As the network of a
    Generator it has the output recurrence of the textbook (figure 10.4): its only memory is the element before, which
    is one of its inputs. W starts uniform in ±1/√D for D features, as in torch.nn.Linear; b = 0.

    Args:
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
    """

    stencil = ()
    depends_on_position = False

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", **factory: Any
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.input_size, self.weight_ih)
        zeros_(self.bias_h)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, self.bias_h

    def step(self, u: Tensor, state: State, weights: Any, t: int) -> State:
        return (ACTIVATIONS[self.nonlinearity].apply(u),)
