"""The GRU form, with the reset gate after the product (torch.nn's) or before it (Cho et al., the textbook)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse.forms.activations import modrelu
from autapse.forms.base import Form, State, diagonal, rows
from autapse.native import operands as native
from autapse.native.operands import Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class GatedRecurrent(Form):
    """r = σ(u_r + R_r·h), z = σ(u_z + R_z·h); h' = (1 − z) ∘ n + z ∘ h, where

    n = tanh(u_n + r ∘ (R_n·h + b_n))   if reset_after
    n = tanh(u_n + R_n·(r ∘ h))         otherwise
    n = modReLU(u_n + r ∘ (R_n·h); b)   with a threshold b, and reset_after
    """

    name = "gru"
    gates = 3
    activations: ClassVar[Sequence[str]] = native.ACTIVATIONS

    matrix: Tensor  # R_r, R_z, R_n stacked, [3H, H]
    bias: Tensor | None  # b_n, [H]; inside the reset gate, so it is not part of the drive
    reset_after: bool = True
    threshold: Tensor | None = None  # b, [H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        (h,) = state
        _, z, n, _ = self._gates(u, h)
        return (n + z * (h - n),)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        r, z, n, inner = self._gates(u, h)
        R_r, R_z, R_n = self.matrix.chunk(3)
        if self.reset_after:
            to_candidate = rows(r, R_n) + rows(inner * r * (1 - r), R_r)
        else:
            to_candidate = R_n @ (diagonal(r) + rows(h * r * (1 - r), R_r))
        return diagonal(z) + rows((h - n) * z * (1 - z), R_z) + ((1 - z) * self._slope(n)).unsqueeze(-1) * to_candidate

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        activation = "tanh" if self.threshold is None else "modrelu"
        code = native.KERNELS.index(GatedRecurrent)
        kind = Kind(code, native.ACTIVATIONS.index(activation), reset_after=self.reset_after)
        return FormOperands(self.matrix, self.bias if self.threshold is None else self.threshold), kind

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> GatedRecurrent:
        if native.ACTIVATIONS[kind.activation] != "modrelu":
            return cls(operands.matrix, operands.offset, kind.reset_after)
        return cls(operands.matrix, None, True, operands.offset)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        H = extent.hidden
        if native.ACTIVATIONS[kind.activation] == "modrelu":
            return {"matrix": (3 * H, H), "offset": (H,)}, {}
        return {"matrix": (3 * H, H)}, {"offset": (H,)} if kind.reset_after else {}

    def _activate(self, a: Tensor) -> Tensor:
        return torch.tanh(a) if self.threshold is None else modrelu(a, self.threshold)

    def _slope(self, n: Tensor) -> Tensor:
        return 1 - n * n if self.threshold is None else (n != 0).to(n.dtype)

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """r, z, n and the vector that the reset gate multiplies."""
        u_r, u_z, u_n = u.chunk(3, dim=-1)
        if self.reset_after:
            a_r, a_z, inner = (h @ self.matrix.t()).chunk(3, dim=-1)
            inner = inner if self.bias is None else inner + self.bias
            r = torch.sigmoid(u_r + a_r)
            n = self._activate(u_n + r * inner)
        else:
            R_n = self.matrix[2 * h.shape[-1] :]
            a_r, a_z = (h @ self.matrix[: 2 * h.shape[-1]].t()).chunk(2, dim=-1)
            inner = h
            r = torch.sigmoid(u_r + a_r)
            n = torch.tanh(torch.addmm(u_n, r * h, R_n.t()))
        return r, torch.sigmoid(u_z + a_z), n, inner
