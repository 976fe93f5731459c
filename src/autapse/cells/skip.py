"""Skip RNN: any cell that learns which steps to skip."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import uniform_
from autapse.cells.enclosing import Enclosing, total
from autapse.cells.named import CELLS
from autapse.forms import State


def binary(chance: Tensor) -> Tensor:
    """1 where chance ≥ ½, else 0. Its gradient is that of `chance` itself: the straight-through estimator.

    >>> chance = torch.tensor([0.2, 0.5], requires_grad=True)
    >>> binary(chance).sum().backward()
    >>> binary(chance).tolist(), chance.grad.tolist()
    ([0.0, 1.0], [1.0, 1.0])
    """
    return (chance >= 0.5).to(chance.dtype) + (chance - chance.detach())


class SkipRNN(Enclosing):
    """s' = z ∘ step(x, s) + (1 − z) ∘ s, where z = 1 if q ≥ ½ and z = 0 otherwise, with the step of another cell

    Δ = σ(w·s' + b); q' = z·Δ + (1 − z)·(q + min(Δ, 1 − q)). Campos et al. 2018, "Skip RNN", equations 2–6. z decides
    for a whole sequence and step whether the state s changes. After a step that is used, q is the chance of the next
    one. While steps are skipped, s and Δ stay, and q grows by Δ until it reaches ½. The gradient passes z as if it were
    q (straight-through), so all derivatives, also `jacobian`, are those of this estimator.

    The states are those of the other cell, then q, which starts at 1, so that the first step is used, and the number of
    steps used so far. With `budget` λ, training adds λ·(number of used steps) of each sequence to its loss (equation
    7). If the other cell has several states, Δ reads the last one with a number for each unit: of the LSTM its cell c,
    as in the authors' code. w starts uniform in ±1/√n (ours) and b at 1 (the authors' code).

    Args:
        budget: λ, the cost of a used step in the loss of training.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        cell: Any = "gru",
        budget: float = 0.0,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, cell, **factory)
        self.budget = checks.number("budget", budget, low=0.0)
        sizes = self.inner.state_sizes
        # A time stamp, or the count of another SkipRNN, is a state too, but says nothing about what to do next.
        self._read = max((n for n, size in enumerate(sizes) if size == hidden_size), default=len(sizes) - 1)
        self.weight_skip = self._parameter(sizes[self._read])  # w
        self.bias_skip = self._bias(1)
        self._reset_skip()

    @torch.no_grad()
    def _reset_skip(self) -> None:
        uniform_(self.hidden_size, self.weight_skip)
        if self.bias_skip is not None:
            self.bias_skip.fill_(1.0)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self._reset_skip()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (*self.inner.state_sizes, 1, 1)

    def initial_state(self, batch: int, like: Tensor) -> State:
        return *self.inner.initial_state(batch, like), like.new_ones(batch, 1), like.new_zeros(batch, 1)

    def step(self, u: Tensor, state: State, weights: Any, t: int) -> State:
        *before, chance, used = state
        z = binary(chance)
        after = self.inner.step(u, tuple(before), weights, t)
        states = [z * new + (1 - z) * old for new, old in zip(after, before, strict=True)]
        growth = torch.sigmoid(self._logit(states[self._read]))
        skipped = chance + torch.minimum(growth, 1 - chance)
        return *states, z * growth + (1 - z) * skipped, used + z

    def _logit(self, state: Tensor) -> Tensor:  # [B, S] -> [B, 1]
        logit = state @ self.weight_skip.unsqueeze(-1)
        return logit if self.bias_skip is None else logit + self.bias_skip

    def penalty(self, state: State) -> Tensor | None:  # [B]
        """λ·(number of used steps), and what the other cell pays; None for nothing."""
        return total([self.budget * state[-1].squeeze(-1) if self.budget else None, super().penalty(state)])


CELLS[SkipRNN.__name__.lower()] = SkipRNN
