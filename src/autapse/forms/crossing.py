"""The form of the Intersection RNN: a gated recurrence over time, crossed by a gated output over depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse.forms.base import Form, State, diagonal, rows
from autapse.native.operands import KERNELS, Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class Crossing(Form):
    """c = tanh(u_c + R_c·h), g = σ(u_g + R_g·h); h' = g ∘ h + (1 − g) ∘ c

    k = ReLU(u_k + R_k·h), q = σ(u_q + R_q·h); y' = q ∘ v + (1 − q) ∘ k. The drive has u_c, u_g, u_k, u_q and v. The
    states are y, which no step reads, and h.
    """

    name = "crossing"
    gates = 5

    matrix: Tensor  # R_c, R_g, R_k, R_q stacked, [4H, H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        _, h = state
        c, g, k, q, v = self._gates(u, h)
        return q * v + (1 - q) * k, g * h + (1 - g) * c

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        _, h = state
        c, g, k, q, v = self._gates(u, h)
        R_c, R_g, R_k, R_q = self.matrix.chunk(4)
        y_by_h = rows((v - k) * q * (1 - q), R_q) + rows((1 - q) * (k > 0), R_k)
        h_by_h = diagonal(g) + rows((h - c) * g * (1 - g), R_g) + rows((1 - g) * (1 - c * c), R_c)
        by_h = torch.cat([y_by_h, h_by_h], dim=1)
        return torch.cat([torch.zeros_like(by_h), by_h], dim=2)

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        return FormOperands(self.matrix), Kind(KERNELS.index(Crossing))

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> Crossing:
        return cls(operands.matrix)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        B, H = extent.batch, extent.hidden
        return {"h0": (B, H), "c0": (B, H), "matrix": (4 * H, H)}, {}

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        u, v = u.tensor_split([4 * h.shape[-1]], dim=-1)
        a_c, a_g, a_k, a_q = torch.addmm(u, h, self.matrix.t()).chunk(4, dim=-1)
        return torch.tanh(a_c), torch.sigmoid(a_g), torch.relu(a_k), torch.sigmoid(a_q), v
