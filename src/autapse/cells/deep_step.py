"""The step of a deep cell: that of another cell, and further maps of the state."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.cells.base import Cell
from autapse.forms import ACTIVATIONS, Form, Leaky, State, Transitions
from autapse.forms.base import rows


@dataclass(frozen=True)
class DeepStep(Form):
    """g₀, … = step(u, h, …); gᵢ = act(Vᵢ·gᵢ₋₁ + bᵢ), plus gᵢ₋₁ with a skip connection; h' = gₙ"""

    name = "deep"

    cell: Cell
    weights: Any  # the result of cell.prepare()
    matrices: tuple[Tensor, ...]  # V₁ … Vₙ
    biases: tuple[Tensor | None, ...]
    activation: str
    skip: bool

    def step(self, u: Tensor, state: State, t: int) -> State:
        return self.mapped(self.cell.step(u, state, self.weights, t))

    def mapped(self, state: State) -> State:
        """The states after the maps, from those after the cell's own step."""
        h, *others = state
        for matrix, bias in zip(self.matrices, self.biases, strict=True):
            h = self._add(self._map(h, matrix, bias), h)
        return (h, *others)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        total = self.cell._jacobian(u, state, self.weights, t)
        h = self.cell.advance(u, state, self.weights, t)[0]
        size = h.shape[-1]
        by_state, others = total[:, :size], total[:, size:]
        for matrix, bias in zip(self.matrices, self.biases, strict=True):
            y = self._map(h, matrix, bias)
            slope = rows(ACTIVATIONS[self.activation].slope(y), matrix)
            by_state, h = self._add(slope @ by_state, by_state), self._add(y, h)
        return torch.cat([by_state, others], dim=1)

    def _map(self, h: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        return ACTIVATIONS[self.activation].apply(F.linear(h, matrix, bias))

    def _add(self, new: Tensor, read: Tensor) -> Tensor:
        return new + read if self.skip else new

    def __copy__(self) -> DeepStep:
        # A form caches what it computes from its matrices, and a copy must not share that.
        return replace(self, weights=copy.copy(self.weights))


def chained(
    form: Form | None, matrices: tuple[Tensor, ...], biases: tuple[Tensor | None, ...], activation: str, skip: bool
) -> Transitions | None:
    """The chain form of a cell whose step is one map, or a chain, followed by more maps; None if it is not a chain."""
    if type(form) is Leaky and form.is_one_map:
        form = Transitions((form.matrix,), (), form.activation, skip)
    if type(form) is not Transitions or form.activation != activation or not form.may_skip(skip):
        return None
    given = tuple(matrix.new_zeros(len(matrix)) if b is None else b for matrix, b in zip(matrices, biases, strict=True))
    return Transitions((*form.matrices, *matrices), (*form.biases, *given), activation, skip)
