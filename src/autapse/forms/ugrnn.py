"""The update-gate form: one gate, one candidate, a product each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse.forms.at_rows import AtRows
from autapse.forms.base import Form, State, diagonal, rows
from autapse.native.operands import KERNELS, Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class UpdateGate(Form):
    """c = tanh(u_c + R_c·h), g = σ(u_g + R_g·h); h' = g ∘ h + (1 − g) ∘ c"""

    name = "ugrnn"
    gates = 2

    matrix: Tensor  # R_c over R_g, [2H, H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        return self._combined(state[0], *self._gates(u, state[0]))

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        return True

    def joined(self, u: Tensor, product: Tensor, state: State, t: Any) -> State:
        return self._combined(state[0], *self._gates(u, state[0], product))

    @staticmethod
    def _combined(h: Tensor, c: Tensor, g: Tensor) -> State:
        return (g * h + (1 - g) * c,)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        c, g = self._gates(u, h)
        R_c, R_g = self.matrix.chunk(2)
        return diagonal(g) + rows((h - c) * g * (1 - g), R_g) + rows((1 - g) * (1 - c * c), R_c)

    @property
    def has_tangent(self) -> bool:
        return True

    def linearised(self, at: AtRows, moved: Operands) -> tuple[Tensor, ...]:
        c, g = at.reserve.chunk(2, dim=-1)
        e_c, e_g = (at.drive + at.product).chunk(2, dim=-1)
        a_c, a_g = (1 - g) * (1 - c * c), (at.h - c) * g * (1 - g)
        return a_c * e_c + a_g * e_g, g, a_c, a_g

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        return FormOperands(self.matrix), Kind(KERNELS.index(UpdateGate))

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> UpdateGate:
        return cls(operands.matrix)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        return {"matrix": (2 * extent.hidden, extent.hidden)}, {}

    def _gates(self, u: Tensor, h: Tensor, product: Tensor | None = None) -> tuple[Tensor, Tensor]:
        a_c, a_g = self.driven(u, h, product).chunk(2, dim=-1)
        return torch.tanh(a_c), torch.sigmoid(a_g)
