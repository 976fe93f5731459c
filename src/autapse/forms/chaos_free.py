"""The form of the chaos-free network: two gates of the state, and a candidate of the input alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse.forms.base import Form, State, diagonal, rows
from autapse.native.operands import KERNELS, Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class ChaosFree(Form):
    """θ = σ(u_θ + R_θ·h), η = σ(u_η + R_η·h); h' = θ ∘ tanh(h) + η ∘ tanh(u_c)"""

    name = "chaos_free"
    gates = 3

    matrix: Tensor  # R_θ over R_η, [2H, H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        (h,) = state
        theta, eta, candidate = self._gates(u, h)
        return (theta * torch.tanh(h) + eta * candidate,)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        theta, eta, candidate = self._gates(u, h)
        R_theta, R_eta = self.matrix.chunk(2)
        kept = torch.tanh(h)
        by_theta = rows(kept * theta * (1 - theta), R_theta)
        return diagonal(theta * (1 - kept * kept)) + by_theta + rows(candidate * eta * (1 - eta), R_eta)

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        return FormOperands(self.matrix), Kind(KERNELS.index(ChaosFree))

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> ChaosFree:
        return cls(operands.matrix)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        return {"matrix": (2 * extent.hidden, extent.hidden)}, {}

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size = h.shape[-1]
        a_theta, a_eta = torch.addmm(u[:, : 2 * size], h, self.matrix.t()).chunk(2, dim=-1)
        return torch.sigmoid(a_theta), torch.sigmoid(a_eta), torch.tanh(u[:, 2 * size :])
