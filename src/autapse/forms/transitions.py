"""The form of deep transitions: several nonlinear maps in a row per step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse.forms.activations import ACTIVATIONS
from autapse.forms.base import Form, State, rows
from autapse.native import operands as native
from autapse.native.operands import Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class Transitions(Form):
    """g = act(u + R₁·h); g ← act(bᵢ + Rᵢ·g) for i = 2…n; h' = g"""

    name = "chain"
    most_inner = native.MOST_INNER

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

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        kind = Kind(native.KERNELS.index(Transitions), native.ACTIVATIONS.index(self.activation), len(self.matrices))
        return FormOperands(torch.stack(self.matrices), torch.stack(self.biases)), kind

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> Transitions:
        biases = () if operands.offset is None else operands.offset.unbind(0)
        return cls(operands.matrix.unbind(0), biases, native.ACTIVATIONS[kind.activation])

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        count, H = kind.inner, extent.hidden
        matrix: Shapes = {"matrix": (count, H, H)}
        offset: Shapes = {"offset": (count - 1, H)}
        return (matrix | offset, {}) if count > 1 else (matrix, offset)

    def _maps(self, u: Tensor, state: State) -> list[Tensor]:
        (g,) = state
        values = []
        for matrix, offset in zip(self.matrices, (u, *self.biases), strict=True):
            g = ACTIVATIONS[self.activation].apply(torch.addmm(offset, g, matrix.t()))
            values.append(g)
        return values
