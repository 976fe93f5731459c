"""The linear form, whose coefficients differ at every row: forward derivatives of other forms are its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse.forms.base import Form, State, diagonal, rows
from autapse.native.operands import ACTIVATIONS, KERNELS, Extent, FormOperands, Kind, Operands, Shapes

MOST_PRODUCTS = 8


@dataclass(frozen=True)
class LinearRecurrence(Form):
    """h' = b + z ∘ h + Σ_k a_k ∘ (M_k·h); the drive is b, z, a_1, …, a_n

    With a second state: c' = b + z ∘ c + Σ_{k<n} a_k ∘ (M_k·h), h' = e + s ∘ c' + q ∘ c + a_n ∘ (M_n·h); the drive ends
    with e, s and q.
    """

    name = "linear"
    activations: ClassVar[Sequence[str]] = ACTIVATIONS[:1]  # it has none
    most_inner = MOST_PRODUCTS

    matrix: Tensor  # M_1, …, M_n stacked, [n·H, H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        h = state[0]
        size = h.shape[-1]
        terms, (b, z, *rest) = (h @ self.matrix.t()).split(size, -1), u.split(size, -1)
        products = [a * term for a, term in zip(rest, terms, strict=False)]
        if len(state) == 1:
            return (sum(products, start=b + z * h),)
        *others, last = products
        c = sum(others, start=b + z * state[1])
        e, s, q = rest[-3:]
        return e + s * c + q * state[1] + last, c

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        size = state[0].shape[-1]
        _, z, *rest = u.split(size, -1)
        parts = [rows(a, matrix) for a, matrix in zip(rest, self.matrix.split(size), strict=False)]
        if len(state) == 1:
            return sum(parts, start=diagonal(z))
        *others, last = parts
        c_by_h, (s, q) = sum(others, start=torch.zeros_like(last)), rest[-2:]
        by_h = torch.cat([s.unsqueeze(-1) * c_by_h + last, c_by_h], dim=-2)
        by_c = torch.cat([diagonal(s * z + q), diagonal(z)], dim=-2)
        return torch.cat([by_h, by_c], dim=-1)

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        count = len(self.matrix) // self.matrix.shape[1]
        return FormOperands(self.matrix), Kind(KERNELS.index(LinearRecurrence), inner=count)

    @classmethod
    def drive_parts(cls, kind: Kind, cells: bool) -> int:
        return 2 + kind.inner + (3 if cells else 0)

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> LinearRecurrence:
        return cls(operands.matrix)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        B, H = extent.batch, extent.hidden
        needed: Shapes = {"matrix": (kind.inner * H, H), "h0": (B, H)}
        return needed | ({"c0": (B, H)} if extent.cells else {}), {}
