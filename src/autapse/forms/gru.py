"""The GRU form, with the reset gate after the product (torch.nn's) or before it (Cho et al., the textbook)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse.forms.base import Form, State, diagonal, rows
from autapse.native.operands import KERNELS, Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class GatedRecurrent(Form):
    """r = σ(u_r + R_r·h), z = σ(u_z + R_z·h); h' = (1 − z) ∘ n + z ∘ h, where

    n = tanh(u_n + r ∘ (R_n·h + b_n))   if reset_after
    n = tanh(u_n + R_n·(r ∘ h))         otherwise
    """

    name = "gru"
    gates = 3

    matrix: Tensor  # R_r, R_z, R_n stacked, [3H, H]
    bias: Tensor | None  # b_n, [H]; inside the reset gate, so it is not part of the drive
    reset_after: bool = True

    def step(self, u: Tensor, state: State, t: int) -> State:
        (h,) = state
        _, z, n, _ = self._gates(u, h)
        return (n + z * (h - n),)

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        return kind.reset_after

    def joined(self, u: Tensor, product: Tensor, state: State, t: Any) -> State:
        (h,) = state
        _, z, n, _ = self._gates(u, h, product)
        return (n + z * (h - n),)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        r, z, n, inner = self._gates(u, h)
        R_r, R_z, R_n = self.matrix.chunk(3)
        if self.reset_after:
            to_candidate = rows(r, R_n) + rows(inner * r * (1 - r), R_r)
        else:
            to_candidate = R_n @ (diagonal(r) + rows(h * r * (1 - r), R_r))
        return diagonal(z) + rows((h - n) * z * (1 - z), R_z) + ((1 - z) * (1 - n * n)).unsqueeze(-1) * to_candidate

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        kind = Kind(KERNELS.index(GatedRecurrent), reset_after=self.reset_after)
        return FormOperands(self.matrix, self.bias), kind

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> GatedRecurrent:
        return cls(operands.matrix, operands.offset, kind.reset_after)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        H = extent.hidden
        return {"matrix": (3 * H, H)}, {"offset": (H,)} if kind.reset_after else {}

    def _gates(self, u: Tensor, h: Tensor, product: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """r, z, n and the vector that the reset gate multiplies."""
        u_r, u_z, u_n = u.chunk(3, dim=-1)
        if self.reset_after:
            a_r, a_z, inner = (self.product(h) if product is None else product).chunk(3, dim=-1)
            inner = inner if self.bias is None else inner + self.bias
            r = torch.sigmoid(u_r + a_r)
            n = torch.tanh(u_n + r * inner)
        else:
            R_n = self.matrix[2 * h.shape[-1] :]
            a_r, a_z = (h @ self.matrix[: 2 * h.shape[-1]].t()).chunk(2, dim=-1)
            inner = h
            r = torch.sigmoid(u_r + a_r)
            n = torch.tanh(torch.addmm(u_n, r * h, R_n.t()))
        return r, torch.sigmoid(u_z + a_z), n, inner
