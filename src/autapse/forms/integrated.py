"""Steps of the AntisymmetricRNN's differential equation other than forward Euler."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse.forms.activations import ACTIVATIONS
from autapse.forms.base import Form, State, rows

# Explicit Runge–Kutta methods: stage i is at h + ε·Σⱼ aᵢⱼ·kⱼ, and h' = h + ε·Σᵢ bᵢ·kᵢ.
TABLEAUS: dict[str, tuple[list[list[float]], list[float]]] = {
    "heun": ([[], [1.0]], [0.5, 0.5]),
    "rk4": ([[], [0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
}
SPLITTING = "splitting"
INTEGRATORS = ("euler", *TABLEAUS, SPLITTING)


@dataclass(frozen=True)
class Integrated(Form):
    """One step ε of dh/dt = f(h), f(h) = act(M·h + u), gated: f(h) = σ(M·h + u_z) ∘ act(M·h + u_h)

    heun:      k₁ = f(h), k₂ = f(h + ε·k₁); h' = h + ε/2·(k₁ + k₂)
    rk4:       the classical method of fourth order
    splitting: h = [p, q]; p⁺ = p + ε/2·f_p(p, q), q' = q + ε·f_q(p⁺, q), p' = p⁺ + ε/2·f_p(p⁺, q')
    """

    name = "integrated"

    matrix: Tensor  # M, [H, H]
    integrator: str
    step_size: float  # ε
    activation: str = "tanh"
    gated: bool = False  # the drive is then u_z, u_h

    def step(self, u: Tensor, state: State, t: int) -> State:
        (h,) = state
        if self.integrator == SPLITTING:
            for units, share in self._moves():
                moved = h[:, units] + share * self.step_size * self._rate(u, h, units)[0]
                h = torch.cat([h[:, : units.start], moved, h[:, units.stop :]], dim=1)
            return (h,)
        nodes, weights = TABLEAUS[self.integrator]
        rates: list[Tensor] = []
        for node in nodes:
            rates.append(self._rate(u, self._moved(h, node, rates))[0])
        return (self._moved(h, weights, rates),)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (h,) = state
        identity = torch.eye(h.shape[1], dtype=h.dtype, device=h.device).expand(len(h), -1, -1)
        if self.integrator == SPLITTING:
            total = identity
            for units, share in self._moves():
                rate, slope = self._rate(u, h, units)
                by_state = rows(slope, self.matrix[units]) @ total
                h = torch.cat([h[:, : units.start], h[:, units] + share * self.step_size * rate, h[:, units.stop :]], 1)
                moved = total[:, units] + share * self.step_size * by_state
                total = torch.cat([total[:, : units.start], moved, total[:, units.stop :]], dim=1)
            return total
        nodes, weights = TABLEAUS[self.integrator]
        rates: list[Tensor] = []
        slopes: list[Tensor] = []
        for node in nodes:
            rate, slope = self._rate(u, self._moved(h, node, rates))
            slopes.append(rows(slope, self.matrix) @ self._moved(identity, node, slopes))
            rates.append(rate)
        return self._moved(identity, weights, slopes)

    def _moves(self) -> list[tuple[slice, float]]:
        """The units that move one after the other, and by how many ε."""
        size = len(self.matrix)
        first, second = slice(0, (size + 1) // 2), slice((size + 1) // 2, size)
        return [(first, 0.5), (second, 1.0), (first, 0.5)]

    def _moved(self, h: Tensor, shares: list[float], rates: list[Tensor]) -> Tensor:
        """h + ε·Σ share·rate"""
        for share, rate in zip(shares, rates, strict=True):
            h = h + share * self.step_size * rate if share else h
        return h

    def _rate(self, u: Tensor, h: Tensor, units: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """f(h) of some units, and df/d(M·h)."""
        a = h @ self.matrix[units].t()
        act = ACTIVATIONS[self.activation]
        if not self.gated:
            y = act.apply(a + u[:, units])
            return y, act.slope(y)
        u_z, u_h = u.chunk(2, dim=1)
        z, c = torch.sigmoid(a + u_z[:, units]), act.apply(a + u_h[:, units])
        return z * c, z * (1 - z) * c + z * act.slope(c)
