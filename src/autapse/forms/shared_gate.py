"""The shared-gate form: the gate and the candidate share one product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse.forms.at_rows import AtRows
from autapse.forms.base import Form, State, diagonal, rows
from autapse.native.operands import KERNELS, Extent, FormOperands, Kind, Operands, Shapes

Scalar = float | Tensor


@dataclass(frozen=True)
class SharedGate(Form):
    """a = R·h; z = σ(u_z + a), c = tanh(u_c + a); h' = (p₀ + p₁·z) ∘ c + (q₀ + q₁·z) ∘ h

    FastGRNN has p = (ζ + ν, −ζ), q = (0, 1); the gated AntisymmetricRNN has p = (0, ε), q = (1, 0).
    """

    name = "shared_gate"
    gates = 2

    matrix: Tensor  # R, [H, H]
    candidate: tuple[Scalar, Scalar]  # p₀, p₁
    carry: tuple[Scalar, Scalar]  # q₀, q₁

    def step(self, u: Tensor, state: State, t: int) -> State:
        return self._combined(state[0], *self._gates(u, state[0]))

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        return True

    def joined(self, u: Tensor, product: Tensor, state: State, t: Any) -> State:
        return self._combined(state[0], *self._gates(u, state[0], product))

    def _combined(self, h: Tensor, z: Tensor, c: Tensor) -> State:
        return (self._affine(self.candidate, z) * c + self._affine(self.carry, z) * h,)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        z, c = self._gates(u, h)
        through_gate = z * (1 - z) * (self.candidate[1] * c + self.carry[1] * h)
        through_candidate = self._affine(self.candidate, z) * (1 - c * c)
        return rows(through_gate + through_candidate, self.matrix) + diagonal(self._affine(self.carry, z))

    @property
    def has_tangent(self) -> bool:
        return True

    def linearised(self, at: AtRows, moved: Operands) -> tuple[Tensor, ...]:
        z, c = at.reserve.chunk(2, dim=-1)
        u_z, u_c = at.drive.chunk(2, dim=-1)
        by_z = z * (1 - z) * (self.candidate[1] * c + self.carry[1] * at.h)
        by_c = self._affine(self.candidate, z) * (1 - c * c)
        b = by_z * (u_z + at.product) + by_c * (u_c + at.product)
        for pairs, value in ((moved.alpha, c), (moved.beta, at.h)):
            if pairs is not None:
                first, second = pairs[at.step].unsqueeze(-1).unbind(1)
                b = b + (first + second * z) * value
        return b, self._affine(self.carry, z), by_z + by_c

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        alpha, beta = (self._each_step(pair, steps) for pair in (self.candidate, self.carry))
        return FormOperands(self.matrix, alpha=alpha, beta=beta), Kind(KERNELS.index(SharedGate))

    def _each_step(self, pair: tuple[Scalar, Scalar], steps: int) -> Tensor:  # [steps, 2]
        values = [value if isinstance(value, Tensor) else self.matrix.new_full((), value) for value in pair]
        return torch.stack(values).expand(steps, 2)

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> SharedGate:
        # The pairs are the same at each step, so the first row gets the gradient of all.
        p, q = (pair[:1].sum(0).unbind(0) for pair in (operands.alpha, operands.beta))  # type: ignore[index]
        return cls(operands.matrix, (p[0], p[1]), (q[0], q[1]))

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        H, pairs = extent.hidden, (extent.steps, 2)
        return {"matrix": (H, H), "alpha": pairs, "beta": pairs}, {}

    def _gates(self, u: Tensor, h: Tensor, product: Tensor | None = None) -> tuple[Tensor, Tensor]:
        u_z, u_c = u.chunk(2, dim=-1)
        a = self.product(h) if product is None else product
        return torch.sigmoid(u_z + a), torch.tanh(u_c + a)

    @staticmethod
    def _affine(pair: tuple[Scalar, Scalar], z: Tensor) -> Tensor:
        return pair[0] + pair[1] * z
