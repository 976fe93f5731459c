"""The leaky form: one product and one nonlinearity, mixed with the old state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from autapse.forms.activations import ACTIVATIONS, modrelu
from autapse.forms.base import Form, State, diagonal, rows

Coefficient = float | Tensor  # a number, [] or [H]; or [S, K] per step and inner step, the last row holding past S


@dataclass(frozen=True)
class Leaky(Form):
    """h' = α ∘ act(u + R·h) + β ∘ h, repeated K times with the same u"""

    name = "leaky"

    matrix: Tensor  # R, [H, H]
    activation: str = "tanh"
    alpha: Coefficient = 1.0
    beta: Coefficient = 0.0
    inner_steps: int = 1
    threshold: Tensor | None = None  # [H], for activation "modrelu"

    def step(self, u: Tensor, state: State, t: int) -> State:
        (h,) = state
        for k in range(self.inner_steps):
            h = self._mix(self._activate(torch.addmm(u, h, self._transposed)), h, t, k)
        return (h,)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        total = torch.eye(h.shape[-1], dtype=h.dtype, device=h.device).expand(h.shape[0], -1, -1)
        for k in range(self.inner_steps):
            y = self._activate(torch.addmm(u, h, self._transposed))
            alpha, beta = self._at(self._alphas, t, k), self._at(self._betas, t, k)
            total = (rows(alpha * self._slope(y), self.matrix) + diagonal(beta * torch.ones_like(h))) @ total
            h = self._mix(y, h, t, k)
        return total

    def _mix(self, y: Tensor, h: Tensor, t: int, k: int) -> Tensor:
        alpha, beta = self._at(self._alphas, t, k), self._at(self._betas, t, k)
        scaled = y if isinstance(alpha, float) and alpha == 1.0 else alpha * y
        return scaled if isinstance(beta, float) and beta == 0.0 else scaled + beta * h

    def _activate(self, a: Tensor) -> Tensor:
        return modrelu(a, self._shift) if self.activation == "modrelu" else ACTIVATIONS[self.activation].apply(a)

    def _slope(self, y: Tensor) -> Tensor:
        return (y != 0).to(y.dtype) if self.activation == "modrelu" else ACTIVATIONS[self.activation].slope(y)

    @property
    def _shift(self) -> Tensor:
        return self.matrix.new_zeros(()) if self.threshold is None else self.threshold

    @cached_property
    def _transposed(self) -> Tensor:
        return self.matrix.t()

    @cached_property
    def _alphas(self) -> float | Tensor | list[tuple[Tensor, ...]]:
        return _unbound(self.alpha)

    @cached_property
    def _betas(self) -> float | Tensor | list[tuple[Tensor, ...]]:
        return _unbound(self.beta)

    @staticmethod
    def _at(values: float | Tensor | list[tuple[Tensor, ...]], t: int, k: int) -> float | Tensor:
        return values[min(t, len(values) - 1)][k] if isinstance(values, list) else values


def _unbound(value: Coefficient) -> float | Tensor | list[tuple[Tensor, ...]]:
    # Indexing [S, K] at each step would make a backward of S zero-filled tensors; unbinding once does not.
    if isinstance(value, Tensor) and value.dim() == 2:
        return [row.unbind(0) for row in value.unbind(0)]
    return value
