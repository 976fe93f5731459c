"""The implicit GRU's rule: neighbours compete for ĥ, and a GRU step acts on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.forms.implicit import Neighbours, Rule, Slope


class Gates(NamedTuple):
    """The results of one evaluation."""

    h: Tensor
    a: Neighbours  # arguments of the σ_j
    s: Neighbours
    mixed: Tensor  # ĥ
    z: Tensor
    r: Tensor
    new: Tensor  # h̃


@dataclass(frozen=True, eq=False)
class ImplicitGRURule(Rule):
    """h = (1−z)∘ĥ + z∘h̃, ĥ = Σ_j s_j∘h_{t+j}, with

    s_j = σ_j / Σ_i σ_i, σ_j = sigmoid(u_j + U_j·h_{t+j}),
    z = sigmoid(u_z + U_z·ĥ), r = sigmoid(u_r + U_r·ĥ), h̃ = tanh(u_h + U·(r∘ĥ)).

    The drive has u_j for each offset, then u_z, u_r, u_h. One evaluation is J + 3 products for J offsets.
    """

    offsets: tuple[int, ...]
    switches: Tensor  # [J, H, H], U_j
    gates: Tensor  # [2H, H], U_z and U_r
    candidate: Tensor  # [H, H], U

    has_bands = True

    @cached_property
    def operands(self) -> tuple[Tensor, ...]:  # type: ignore[override]
        return self.switches, self.gates, self.candidate

    def evaluate(self, u: Tensor, neighbours: Neighbours) -> Tensor:
        return self._gates(u, neighbours).h

    def evaluate_with_bands(self, u: Tensor, neighbours: Neighbours) -> tuple[Tensor, Neighbours]:
        gates = self._gates(u, neighbours)
        return gates.h, tuple((1 - gates.z) * part for part in gates.s)

    def linearize(self, u: Tensor, neighbours: Neighbours) -> tuple[Tensor, Slope]:
        h, a, s, mixed, z, r, new = self._gates(u, neighbours)
        competition = tuple(
            part * (near - mixed) * torch.sigmoid(-arg) for part, near, arg in zip(s, neighbours, a, strict=True)
        )
        by_z, by_r, by_new = z * (1 - z) * (new - mixed), r * (1 - r) * mixed, z * (1 - new * new)
        return h, GRUSlope(self, s, competition, z=z, by_z=by_z, r=r, by_r=by_r, by_new=by_new)

    def _gates(self, u: Tensor, neighbours: Neighbours) -> Gates:
        count, size = len(self.offsets), self.candidate.shape[0]
        drives = u[:, : count * size].split(size, 1)
        a = tuple(
            part + F.linear(near, matrix)
            for part, near, matrix in zip(drives, neighbours, self.switches.unbind(0), strict=True)
        )
        # σ_j / Σ σ_i by logarithms: both may underflow even if their quotient does not.
        s = torch.stack([F.logsigmoid(arg) for arg in a]).softmax(0).unbind(0)
        mixed = sum(part * near for part, near in zip(s, neighbours, strict=True))
        assert isinstance(mixed, Tensor)
        return self._step(u[:, count * size :], mixed, a, s)

    def _step(self, u: Tensor, mixed: Tensor, a: Neighbours = (), s: Neighbours = ()) -> Gates:
        """The GRU step on ĥ."""
        size = self.candidate.shape[0]
        z, r = torch.sigmoid(u[:, : 2 * size] + F.linear(mixed, self.gates)).split(size, 1)
        new = torch.tanh(u[:, 2 * size :] + F.linear(r * mixed, self.candidate))
        return Gates(mixed + z * (new - mixed), a, s, mixed, z, r, new)

    def guess(self, u: Tensor, previous: Tensor) -> Tensor:
        return self._step(u[:, len(self.offsets) * previous.shape[1] :], previous).h


@dataclass(frozen=True, eq=False)
class GRUSlope(Slope):
    """The derivative of an ImplicitGRURule in closed form. A product with it costs as much as an evaluation."""

    rule: ImplicitGRURule
    s: Neighbours
    competition: Neighbours  # dĥ / da_j
    z: Tensor
    by_z: Tensor  # dh / da_z
    r: Tensor
    by_r: Tensor  # d(r∘ĥ) / da_r
    by_new: Tensor  # dh / da_h

    def bands(self) -> Neighbours:
        return tuple((1 - self.z) * s for s in self.s)

    def jvp(self, tangents: Neighbours) -> Tensor:
        mixed = torch.zeros_like(self.z)
        for s, c, d, matrix in zip(self.s, self.competition, tangents, self.rule.switches.unbind(0), strict=True):
            mixed = mixed + s * d + c * F.linear(d, matrix)
        z, r = F.linear(mixed, self.rule.gates).chunk(2, 1)
        inner = F.linear(self.by_r * r + self.r * mixed, self.rule.candidate)
        return (1 - self.z) * mixed + self.by_z * z + self.by_new * inner

    def vjp(self, v: Tensor) -> Neighbours:
        reset = (v * self.by_new) @ self.rule.candidate
        gates = torch.cat([v * self.by_z, reset * self.by_r], 1)
        mixed = (1 - self.z) * v + gates @ self.rule.gates + self.r * reset
        parts = zip(self.s, self.competition, self.rule.switches.unbind(0), strict=True)
        return tuple(mixed * s + (mixed * c) @ matrix for s, c, matrix in parts)

    def blocks(self) -> Neighbours:
        gate_z, gate_r = self.rule.gates.chunk(2, 0)
        inner = self.by_r[:, :, None] * gate_r + torch.diag_embed(self.r)
        step = torch.diag_embed(1 - self.z) + self.by_z[:, :, None] * gate_z
        step = step + self.by_new[:, :, None] * (self.rule.candidate @ inner)
        matrices = self.rule.switches.unbind(0)
        return tuple(
            step @ (torch.diag_embed(s) + c[:, :, None] * matrix)
            for s, c, matrix in zip(self.s, self.competition, matrices, strict=True)
        )
