"""The shared-gate form: one product serves the gate and the candidate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse.forms.base import Form, State, diagonal, rows

Scalar = float | Tensor


@dataclass(frozen=True)
class SharedGate(Form):
    """a = R·h; z = σ(u_z + a), c = tanh(u_c + a); h' = (p₀ + p₁·z) ∘ c + (q₀ + q₁·z) ∘ h

    FastGRNN has p = (ζ + ν, −ζ), q = (0, 1); the gated AntisymmetricRNN has p = (0, ε), q = (1, 0).
    """

    name = "shared_gate"

    matrix: Tensor  # R, [H, H]
    candidate: tuple[Scalar, Scalar]  # p₀, p₁
    carry: tuple[Scalar, Scalar]  # q₀, q₁

    def step(self, u: Tensor, state: State, t: int) -> State:
        (h,) = state
        z, c = self._gates(u, h)
        return (self._affine(self.candidate, z) * c + self._affine(self.carry, z) * h,)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        z, c = self._gates(u, h)
        through_gate = z * (1 - z) * (self.candidate[1] * c + self.carry[1] * h)
        through_candidate = self._affine(self.candidate, z) * (1 - c * c)
        return rows(through_gate + through_candidate, self.matrix) + diagonal(self._affine(self.carry, z))

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        u_z, u_c = u.chunk(2, dim=-1)
        a = h @ self.matrix.t()
        return torch.sigmoid(u_z + a), torch.tanh(u_c + a)

    @staticmethod
    def _affine(pair: tuple[Scalar, Scalar], z: Tensor) -> Tensor:
        return pair[0] + pair[1] * z
