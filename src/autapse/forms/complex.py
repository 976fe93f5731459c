"""The form of complex networks: a complex state held as real numbers, and modReLU on its modulus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.forms.base import Form, State, diagonal
from autapse.native.operands import KERNELS, Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class ComplexModulus(Form):
    """h' = modReLU(u + R·h; b), modReLU(a; b) = a/|a|·max(0, |a| + b) for complex a

    The state [p, q] is that of the complex numbers p + iq: all real parts, then all imaginary parts. So is the drive.
    """

    name = "complex"

    matrix: Tensor  # [[A, −B], [B, A]] of the complex matrix A + iB, [2n, 2n]
    threshold: Tensor | None = None  # b, [n]

    @property
    def activation(self) -> str:
        """The name of the nonlinearity."""
        return "modrelu"

    def step(self, u: Tensor, state: State, t: int) -> State:
        p, q, scale, _ = self._polar(u, state[0])
        return (torch.cat([p * scale, q * scale], dim=-1),)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        """A real 2×2 block per unit: the modulus changes by 1, the direction by the scale s of modReLU."""
        p, q, s, modulus = self._polar(u, state[0])
        x, y = p / modulus, q / modulus
        on = (s > 0).to(s.dtype)
        mixed = diagonal((on - s) * x * y)
        upper = torch.cat([diagonal(s + (on - s) * x * x), mixed], dim=-1)
        lower = torch.cat([mixed, diagonal(s + (on - s) * y * y)], dim=-1)
        return torch.cat([upper, lower], dim=-2) @ self.matrix

    def _polar(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Real and imaginary part of a = u + R·h, by what modReLU scales it, and |a|, or 1 where a is 0."""
        p, q = torch.addmm(u, h, self.matrix.t()).chunk(2, dim=-1)
        square = p * p + q * q
        inside = square > 0
        modulus = torch.where(inside, square, 1).sqrt()  # the root of 0 would have no gradient
        shifted = modulus if self.threshold is None else modulus + self.threshold
        return p, q, torch.where(inside, torch.relu(shifted) / modulus, 0), modulus

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        return FormOperands(self.matrix, self.threshold), Kind(KERNELS.index(ComplexModulus))

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> ComplexModulus:
        return cls(operands.matrix, operands.offset)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        H = extent.hidden
        if H % 2:
            rule = "have an even number of columns: real parts, then imaginary parts"
            checks.fail("h0", rule, H, kind=checks.ShapeError)
        return {"matrix": (H, H)}, {"offset": (H // 2,)}
