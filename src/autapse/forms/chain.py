"""The chain form: several nonlinear maps in a row per step (deep transitions)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse.forms.activations import ACTIVATIONS
from autapse.forms.base import Form, State, rows


@dataclass(frozen=True)
class Chain(Form):
    """g = act(u + R₁·h); g ← act(bᵢ + Rᵢ·g) for i = 2…n; h' = g"""

    name = "chain"

    matrices: tuple[Tensor, ...]  # R₁ … Rₙ, each [H, H]
    biases: tuple[Tensor, ...]  # b₂ … bₙ, each [H]
    activation: str = "relu"

    def step(self, u: Tensor, state: State, t: int) -> State:
        return (self._maps(u, state)[-1],)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        slope = ACTIVATIONS[self.activation].slope
        first, *rest = [rows(slope(g), matrix) for g, matrix in zip(self._maps(u, state), self.matrices, strict=True)]
        for factor in rest:
            first = factor @ first
        return first

    def _maps(self, u: Tensor, state: State) -> list[Tensor]:
        (g,) = state
        values = []
        for matrix, offset in zip(self.matrices, (u, *self.biases), strict=True):
            g = ACTIVATIONS[self.activation].apply(torch.addmm(offset, g, matrix.t()))
            values.append(g)
        return values
