"""The LSTM form, with optional peepholes and projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse.forms.at_rows import AtRows
from autapse.forms.base import Form, State, diagonal, rows
from autapse.native.operands import KERNELS, Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class LongShortTerm(Form):
    """i, f = σ(u + R·h + p ∘ c), g = tanh(u_g + R_g·h); c' = f ∘ c + i ∘ g

    o = σ(u_o + R_o·h + p_o ∘ c + q_o ∘ c'); h' = P·(o ∘ tanh c')
    """

    name = "lstm"
    gates = 4

    matrix: Tensor  # R_i, R_f, R_g, R_o stacked, [4H, H or the projection's size]
    peepholes: Tensor | None = None  # p_i, p_f, p_o, q_o, [4, H]
    projection: Tensor | None = None  # P, [size, H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        return self._combined(*self._gates(u, state))

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        return not projected

    def joined(self, u: Tensor, product: Tensor, state: State, t: Any) -> State:
        return self._combined(*self._gates(u, state, product))

    def _combined(self, *gates: Tensor) -> State:
        *_, o, c, squashed = gates
        h = o * squashed
        return (h if self.projection is None else h @ self.projection.t(), c)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        _, c_old = state
        i, f, g, o, _, squashed = self._gates(u, state)
        R_i, R_f, R_g, R_o = self.matrix.chunk(4)
        p_i, p_f, p_o, q_o = self.peepholes if self.peepholes is not None else (0.0,) * 4
        di, df, dg, do = i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)
        c_by_h = rows(g * di, R_i) + rows(c_old * df, R_f) + rows(i * dg, R_g)
        c_by_c = diagonal(f + g * di * p_i + c_old * df * p_f)
        by_c = (squashed * do * q_o + o * (1 - squashed * squashed)).unsqueeze(-1)  # dh'/dc'
        h_by_h = rows(squashed * do, R_o) + by_c * c_by_h
        h_by_c = diagonal(squashed * do * p_o) + by_c * c_by_c
        if self.projection is not None:
            h_by_h, h_by_c = self.projection @ h_by_h, self.projection @ h_by_c
        return torch.cat([torch.cat([h_by_h, h_by_c], dim=-1), torch.cat([c_by_h, c_by_c], dim=-1)], dim=-2)

    @property
    def has_tangent(self) -> bool:
        return self.projection is None

    def linearised(self, at: AtRows, moved: Operands) -> tuple[Tensor, ...]:
        i, f, g, o = at.reserve.chunk(4, dim=-1)
        squashed = torch.tanh(at.new_c)
        e_i, e_f, e_g, e_o = (at.drive + at.product).chunk(4, dim=-1)
        a_i, a_f, a_g, a_o = g * i * (1 - i), at.c * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)
        through, by_c, past = f, o * (1 - squashed * squashed), torch.zeros_like(f)
        if self.peepholes is not None:
            p_i, p_f, p_o, q_o = self.peepholes
            through, by_c, past = through + a_i * p_i + a_f * p_f, by_c + a_o * q_o, a_o * p_o
        if moved.offset is not None:
            m_i, m_f, m_o, m_q = moved.offset
            e_i, e_f, e_o = e_i + m_i * at.c, e_f + m_f * at.c, e_o + m_o * at.c + m_q * at.new_c
        return a_i * e_i + a_f * e_f + a_g * e_g, through, a_i, a_f, a_g, a_o, a_o * e_o, by_c, past

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        return FormOperands(self.matrix, self.peepholes, self.projection), Kind(KERNELS.index(LongShortTerm))

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> LongShortTerm:
        return cls(operands.matrix, operands.offset, operands.projection)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        B, H, size = extent.batch, extent.hidden, extent.outputs
        needed: Shapes = {"c0": (B, H), "matrix": (4 * H, size)}
        if given["projection"] is None:
            needed["h0"] = (B, H)
        return needed, {"offset": (4, H), "projection": (size, H)}

    def _gates(
        self, u: Tensor, state: State, product: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """i, f, g, o, the new cell, and tanh of it."""
        h, c = state
        a_i, a_f, a_g, a_o = self.driven(u, h, product).chunk(4, dim=-1)
        if self.peepholes is not None:
            p_i, p_f, p_o, q_o = self.peepholes
            a_i, a_f, a_o = a_i + p_i * c, a_f + p_f * c, a_o + p_o * c
        i, f, g = torch.sigmoid(a_i), torch.sigmoid(a_f), torch.tanh(a_g)
        c = f * c + i * g
        if self.peepholes is not None:
            a_o = a_o + q_o * c
        return i, f, g, torch.sigmoid(a_o), c, torch.tanh(c)
