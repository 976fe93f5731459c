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
    """g = act(u + R₁·h); g ← act(bᵢ + Rᵢ·g) for i = 2…n, plus g with skip connections; h' = g"""

    name = "chain"
    most_inner = native.MOST_INNER

    matrices: tuple[Tensor, ...]  # R₁ … Rₙ, each [H, H]
    biases: tuple[Tensor, ...]  # b₂ … bₙ, each [H]
    activation: str = "relu"
    skip: bool = False

    def may_skip(self, skip: bool) -> bool:
        """Whether maps with or without skip connections can follow: those of a chain are all alike."""
        return len(self.matrices) == 1 or self.skip == skip

    def step(self, u: Tensor, state: State, t: int) -> State:
        (h,) = state
        g = self._map(0, u, h)
        for i, bias in enumerate(self.biases, 1):
            g = self._add(self._map(i, bias, g), g)
        return (g,)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        g = self._map(0, u, h)
        total = rows(self._slope(g), self.matrices[0])
        for i, bias in enumerate(self.biases, 1):
            y = self._map(i, bias, g)
            total, g = self._add(rows(self._slope(y), self.matrices[i]) @ total, total), self._add(y, g)
        return total

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        code, activation = native.KERNELS.index(Transitions), native.ACTIVATIONS.index(self.activation)
        kind = Kind(code, activation, len(self.matrices), skip=self.skip)
        return FormOperands(torch.stack(self.matrices), torch.stack(self.biases)), kind

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> Transitions:
        biases = () if operands.offset is None else operands.offset.unbind(0)
        return cls(operands.matrix.unbind(0), biases, native.ACTIVATIONS[kind.activation], kind.skip)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        count, H = kind.inner, extent.hidden
        matrix: Shapes = {"matrix": (count, H, H)}
        offset: Shapes = {"offset": (count - 1, H)}
        return (matrix | offset, {}) if count > 1 else (matrix, offset)

    def _map(self, i: int, offset: Tensor, g: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation].apply(torch.addmm(offset, g, self.matrices[i].t()))

    def _slope(self, y: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation].slope(y)

    def _add(self, new: Tensor, read: Tensor) -> Tensor:
        return new + read if self.skip else new
