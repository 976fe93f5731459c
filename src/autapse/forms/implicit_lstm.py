"""The implicit LSTM's rule: neighbours compete for ĥ and ĉ, and an LSTM step acts on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.forms.implicit import AnySlope, Neighbours, Rule, Slope


@dataclass(frozen=True, eq=False)
class ImplicitLSTMRule(Rule):
    """c = f∘ĉ + i∘g, h = o∘tanh(c), with ĥ = Σ_j s_j∘h_{t+j}, ĉ = Σ_j s_j∘c_{t+j}, where

    s_j = σ_j / Σ_i σ_i, σ_j = sigmoid(u_j + U_j·h_{t+j}),
    i, f, o = sigmoid(u + U·ĥ), g = tanh(u_g + U_g·ĥ).

    A state is [h, c]. The drive has u_j for each offset, then u_i, u_f, u_g, u_o.
    """

    offsets: tuple[int, ...]
    switches: Tensor  # [J, H, H], U_j
    gates: Tensor  # [4H, H]: i, f, g, o

    has_bands = True

    @cached_property
    def operands(self) -> tuple[Tensor, ...]:  # type: ignore[override]
        return self.switches, self.gates

    def evaluate(self, u: Tensor, neighbours: Neighbours) -> Tensor:
        return self._evaluate(u, neighbours)[0]

    def _evaluate(self, u: Tensor, neighbours: Neighbours) -> tuple[Tensor, Tensor, Tensor]:
        count, size = len(self.offsets), self.gates.shape[1]
        drives = u[:, : count * size].split(size, 1)
        near = [both.split(size, 1) for both in neighbours]
        a = [
            F.logsigmoid(part + F.linear(h, matrix))
            for part, (h, _), matrix in zip(drives, near, self.switches.unbind(0), strict=True)
        ]
        s = torch.stack(a).softmax(0)  # by logarithms, as in ImplicitGRURule
        h = (s * torch.stack([h for h, _ in near])).sum(0)
        c = (s * torch.stack([c for _, c in near])).sum(0)
        i, f, g, o = (u[:, count * size :] + F.linear(h, self.gates)).split(size, 1)
        forget = torch.sigmoid(f)
        c = forget * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], 1), s, forget

    def evaluate_with_bands(self, u: Tensor, neighbours: Neighbours) -> tuple[Tensor, Neighbours]:
        value, s, forget = self._evaluate(u, neighbours)
        return value, _bands(s, forget)

    def linearize(self, u: Tensor, neighbours: Neighbours) -> tuple[Tensor, Slope]:
        value, s, forget = self._evaluate(u, neighbours)
        return value, LSTMSlope(self, u, neighbours, _bands(s, forget))

    def guess(self, u: Tensor, previous: Tensor) -> Tensor:
        return self._evaluate(u, (previous,) * len(self.offsets))[0]


def _bands(s: Tensor, forget: Tensor) -> Neighbours:
    """The bands: f∘s_j for c, and 0 for h, which has no elementwise couplings."""
    return tuple(torch.cat([torch.zeros_like(part), forget * part], 1) for part in s.unbind(0))


class LSTMSlope(AnySlope):
    """The derivative of an ImplicitLSTMRule, automatic except for the bands."""

    def __init__(self, rule: ImplicitLSTMRule, u: Tensor, neighbours: Neighbours, bands: Neighbours) -> None:
        super().__init__(lambda u, *near: rule.evaluate(u, near), u, neighbours)
        self._bands = bands

    def bands(self) -> Neighbours:
        return self._bands
