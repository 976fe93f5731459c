"""Recursive least squares: a readout that learns from one state after the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.readouts.base import LinearReadout, pairs_of


class RecursiveLeastSquares(LinearReadout):
    """P ← (P − P·h·hᵀ·P / (λ + hᵀ·P·h)) / λ, W ← W + (y − W·h)·hᵀ·P

    After each state the weights are those that minimise Σ λⁿ⁻ᵏ·|y_k − W·h_k|² + λⁿ·δ·|W|² over all states so far
    (Jaeger 2003; the same update is the learning rule of FORCE, Sussillo and Abbott 2009). A constant is added to the
    states, so that there is an offset; it has the same penalty.

    Args:
        penalty: δ, above 0. The weights start at zero; a small value lets the first states change them much.
        forgetting: λ, at most 1: with 0.99 a state counts half as much after 69 further states.

    >>> readout = autapse.readouts.RecursiveLeastSquares(penalty=1e-6)
    >>> for t in range(20):
    ...     error = readout.update(torch.tensor([t % 3.0]), torch.tensor([2.0 * (t % 3) + 1]))
    >>> readout(torch.tensor([5.0])).round(decimals=3)
    tensor([11.])
    """

    inverse: Tensor | None  # P, [H + 1, H + 1]

    def __init__(self, penalty: float = 1e-2, forgetting: float = 1.0) -> None:
        super().__init__()
        self.penalty = checks.number("penalty", penalty, above=0.0)
        self.forgetting = checks.number("forgetting", forgetting, high=1.0, above=0.0)
        self.register_buffer("inverse", None)

    def reset(self) -> None:
        """Forget all states."""
        self.weight = self.bias = self.inverse = None

    def start(self, features: int, outputs: int) -> None:
        """Start with zero weights.

        Args:
            features: numbers per state.
            outputs: numbers per target.
        """
        self.inverse = torch.eye(features + 1, dtype=torch.float64) / self.penalty
        self.weight = torch.zeros(outputs, features, dtype=torch.float64)
        self.bias = torch.zeros(outputs, dtype=torch.float64)

    @torch.no_grad()
    def update(self, state: Tensor, target: Tensor) -> Tensor:  # [H], [K] -> [K]
        """Learn from one state.

        Args:
            state: [H].
            target: [K].

        Returns:
            The error before the update, y − W·h − c.
        """
        if self.inverse is None or self.weight is None or self.bias is None:
            self.start(len(state), len(target))
        assert self.inverse is not None
        assert self.weight is not None
        assert self.bias is not None
        h = torch.cat([state.to(torch.float64), torch.ones(1, dtype=torch.float64)])
        error = target.to(torch.float64) - (self.weight @ h[:-1] + self.bias)
        along = self.inverse @ h
        size = self.forgetting + float(h @ along)
        self.inverse.addr_(along, along, alpha=-1 / size)
        if self.forgetting != 1:
            self.inverse /= self.forgetting
        gain = along / size
        self.weight.addr_(error, gain[:-1])
        self.bias += error * gain[-1]
        return error

    @torch.no_grad()
    def add(self, states: Any, targets: Any) -> RecursiveLeastSquares:
        """Learn from states in the order of time.

        Args:
            states: [..., H].
            targets: [..., K], one row per state.

        Returns:
            The readout itself.
        """
        known = (None, None) if self.weight is None else (self.weight.shape[1], self.weight.shape[0])
        for h, y in zip(*pairs_of(states, targets, *known), strict=True):
            self.update(h, y)
        return self

    def fit(self, states: Any, targets: Any) -> RecursiveLeastSquares:
        """`reset`, then `add`.

        Args:
            states: [..., H].
            targets: [..., K], one row per state.

        Returns:
            The readout itself.
        """
        self.reset()
        return self.add(states, targets)
