"""Unrolled: autograd through a few steps at the solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from autapse import checks
from autapse.gradient.base import AdjointNote, ClosedForm, Gradient, Solved


@dataclass(frozen=True)
class Unrolled(Gradient):
    """z ← F(z), k times from the solution, with autograd: the first k terms of the implicit gradient.

    If F contracts, the gradient is exact in the limit of large k. It has derivatives of any order, and needs the memory
    of k evaluations.

    Args:
        steps: k, the number of steps.

    >>> layer = autapse.ImplicitGRU(3, 4, gradient=autapse.gradient.Unrolled(5))
    >>> layer(torch.zeros(5, 2, 3))[0].sum().backward()
    """

    steps: int

    def __post_init__(self) -> None:
        checks.integer("steps", self.steps, minimum=1)

    def attach(
        self, system: Solved | ClosedForm, z: Tensor, converged: Tensor | None, rtol: float, note: AdjointNote
    ) -> Tensor:
        return followed(system.evaluate, z, converged, self.steps, 1.0)


def followed(
    evaluate: Callable[[Tensor], Tensor], z: Tensor, converged: Tensor | None, steps: int, damping: float
) -> Tensor:
    """The solution with a graph of `steps` damped steps, or without a graph for unsolved problems."""
    result = z
    for _ in range(steps):
        value = evaluate(result)
        result = value if damping == 1.0 else torch.lerp(result, value, damping)
    return result if converged is None else torch.where(converged, result, z)
