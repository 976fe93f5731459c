"""The GRU form, with the reset gate after the product (torch.nn's) or before it (Cho et al., the textbook)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse.forms.activations import modrelu
from autapse.forms.at_rows import AtRows
from autapse.forms.base import Form, State, diagonal, rows
from autapse.native import operands as native
from autapse.native.operands import Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class GatedRecurrent(Form):
    """r = σ(u_r + R_r·h + b_r), z = σ(u_z + R_z·h + b_z); h' = (1 − z) ∘ n + z ∘ h, where

    n = tanh(u_n + r ∘ (R_n·h + b_n))   if reset_after
    n = tanh(u_n + R_n·(r ∘ h) + b_n)   otherwise
    n = modReLU(u_n + r ∘ (R_n·h); m)   with a threshold m, without b, and reset_after
    """

    name = "gru"
    gates = 3
    activations: ClassVar[Sequence[str]] = native.ACTIVATIONS

    matrix: Tensor  # R_r, R_z, R_n stacked, [3H, H]
    bias: Tensor | None  # b_r, b_z, b_n, [3H]; b_n may be inside the reset gate, so b is not part of the drive
    reset_after: bool = True
    threshold: Tensor | None = field(default=None, kw_only=True)  # m, [H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        (h,) = state
        _, z, n, _ = self._gates(u, h)
        return (n + z * (h - n),)

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        return kind.reset_after

    def joined(self, u: Tensor, product: Tensor, state: State, t: Any) -> State:
        (h,) = state
        _, z, n, _ = self._gates(u, h, product=product)
        return (n + z * (h - n),)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        r, z, n, inner = self._gates(u, h)
        dr, dz = self._gate_slopes(u, h)
        R_n = self.matrix[2 * h.shape[-1] :]
        if self.reset_after:
            to_candidate = rows(r, R_n) + inner.unsqueeze(-1) * dr
        else:
            to_candidate = R_n @ (diagonal(r) + h.unsqueeze(-1) * dr)
        return diagonal(z) + (h - n).unsqueeze(-1) * dz + ((1 - z) * self._slope(n)).unsqueeze(-1) * to_candidate

    def _gate_slopes(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:  # [B, H, H] each
        """dr/dh and dz/dh."""
        r, z, *_ = self._gates(u, h)
        R_r, R_z, _ = self.matrix.chunk(3)
        return rows(r * (1 - r), R_r), rows(z * (1 - z), R_z)

    @property
    def has_tangent(self) -> bool:
        return self.reset_after and self.threshold is None

    def linearised(self, at: AtRows, moved: Operands) -> tuple[Tensor, ...]:
        r, z, n, inner = at.reserve.chunk(4, dim=-1)
        u_r, u_z, u_n = at.drive.chunk(3, dim=-1)
        product = at.product if moved.offset is None else at.product + moved.offset
        m_r, m_z, m_n = product.chunk(3, dim=-1)
        by_n = (1 - z) * (1 - n * n)
        a_r, a_z, a_n = by_n * inner * r * (1 - r), (at.h - n) * z * (1 - z), by_n * r
        return a_r * (u_r + m_r) + a_z * (u_z + m_z) + by_n * u_n + a_n * m_n, z, a_r, a_z, a_n

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        activation = "tanh" if self.threshold is None else "modrelu"
        code = native.KERNELS.index(GatedRecurrent)
        kind = Kind(code, native.ACTIVATIONS.index(activation), reset_after=self.reset_after)
        return FormOperands(self.matrix, self.bias if self.threshold is None else self.threshold), kind

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> GatedRecurrent:
        if native.ACTIVATIONS[kind.activation] != "modrelu":
            return cls(operands.matrix, operands.offset, kind.reset_after)
        return cls(operands.matrix, None, threshold=operands.offset)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        H = extent.hidden
        if native.ACTIVATIONS[kind.activation] == "modrelu":
            return {"matrix": (3 * H, H), "offset": (H,)}, {}
        return {"matrix": (3 * H, H)}, {"offset": (3 * H,)}

    def _activate(self, a: Tensor) -> Tensor:
        return torch.tanh(a) if self.threshold is None else modrelu(a, self.threshold)

    def _slope(self, n: Tensor) -> Tensor:
        return 1 - n * n if self.threshold is None else (n != 0).to(n.dtype)

    def _gates(
        self, u: Tensor, h: Tensor, factors: tuple[Tensor, Tensor] | None = None, product: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """r, z, n and the vector that the reset gate multiplies. `factors` multiply r and z; R·h may be known."""
        if self.reset_after:
            product = self.product(h) if product is None else product
            a_r, a_z, inner = (product if self.bias is None else product + self.bias).chunk(3, dim=-1)
        else:
            u = u if self.bias is None else u + self.bias
            a_r, a_z = (h @ self.matrix[: 2 * h.shape[-1]].t()).chunk(2, dim=-1)
            inner = h
        u_r, u_z, u_n = u.chunk(3, dim=-1)
        r, z = torch.sigmoid(u_r + a_r), torch.sigmoid(u_z + a_z)
        if factors is not None:
            r, z = factors[0] * r, factors[1] * z
        if self.reset_after:
            return r, z, self._activate(u_n + r * inner), inner
        return r, z, torch.tanh(torch.addmm(u_n, r * h, self.matrix[2 * h.shape[-1] :].t())), inner


@dataclass(frozen=True)
class GlobalGates(GatedRecurrent):
    """r = ρ·σ(u_r + R_r·h + b_r), z = ζ·σ(u_z + R_z·h + b_z), and the rest as GatedRecurrent, where

    ρ, ζ = σ(u_g + R_g·h + b_g) are one number each, for all units. Their drives come first. It has no kernel.
    """

    name = "global_gates"

    overall: Tensor | None = None  # R_g, [2, H]
    overall_bias: Tensor | None = None  # b_g, [2]

    def _factors(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:  # [B, 1] each
        assert self.overall is not None
        u = u[:, :2] if self.overall_bias is None else u[:, :2] + self.overall_bias
        factor_r, factor_z = torch.sigmoid(torch.addmm(u, h, self.overall.t())).split(1, dim=-1)
        return factor_r, factor_z

    def _gates(
        self, u: Tensor, h: Tensor, factors: tuple[Tensor, Tensor] | None = None, product: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return super()._gates(u[:, 2:], h, self._factors(u, h), product)

    def _gate_slopes(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        assert self.overall is not None
        local = GatedRecurrent(self.matrix, self.bias, self.reset_after)
        gates, slopes = local._gates(u[:, 2:], h)[:2], local._gate_slopes(u[:, 2:], h)
        dr, dz = (
            factor.unsqueeze(-1) * slope + rows(gate * factor * (1 - factor), row.unsqueeze(0))
            for gate, slope, factor, row in zip(gates, slopes, self._factors(u, h), self.overall, strict=True)
        )
        return dr, dz
