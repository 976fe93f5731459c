"""The chaos-free network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse.cells.base import FormCell, uniform_
from autapse.forms import ChaosFree, Form


class CFN(FormCell):
    """h' = θ ∘ tanh(h) + η ∘ tanh(W·x), θ = σ(V_θ·x + U_θ·h + b_θ), η = σ(V_η·x + U_η·h + b_η)

    The chaos-free network of Laurent and von Brecht (2017), equations 1–3. Without input every unit decays to 0, so the
    only attractor is the origin. As theirs, b_θ starts at 1 and b_η at −1 (from memory: it could not be compared); the
    matrices start uniform in ±1/√n (ours). W·x has no bias; torchrecurrent's CFN, otherwise the same, has one.
    """

    form_class = ChaosFree
    unit_matrices = ("weight_hh",)

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **factory: Any):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.weight_ih = self._parameter(3 * hidden_size, input_size)  # V_θ over V_η over W
        self.weight_hh = self._parameter(2 * hidden_size, hidden_size)  # U_θ over U_η
        self.bias_h = self._bias(2 * hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        if self.bias_h is not None:
            self.bias_h[: self.hidden_size] = 1.0
            self.bias_h[self.hidden_size :] = -1.0

    def affine(self) -> tuple[Tensor, Tensor | None]:
        if self.bias_h is None:
            return self.weight_ih, None
        return self.weight_ih, torch.cat([self.bias_h, self.bias_h.new_zeros(self.hidden_size)])

    def prepare(self) -> Form:
        return ChaosFree(self.weight_hh)
