"""Unrolled: autograd through a few steps at the solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from autapse import checks
from autapse.gradient.base import Gradient, Solved
from autapse.solve import LinearReport


@dataclass(frozen=True)
class Unrolled(Gradient):
    """z ← F(z), k times from the solution, each followed by autograd: the first k terms of the implicit gradient.

    Exact as k grows where F contracts. Differentiable to any order; costs the memory of k evaluations.
    """

    steps: int
    """k, the steps that autograd follows."""

    def __post_init__(self) -> None:
        checks.integer("steps", self.steps, minimum=1)

    def attach(
        self, system: Solved, z: Tensor, converged: Tensor, rtol: float, note: Callable[[LinearReport], None]
    ) -> Tensor:
        return followed(system, z, converged, self.steps, 1.0)


def followed(system: Solved, z: Tensor, converged: Tensor, steps: int, damping: float) -> Tensor:
    """The solution with a graph of `steps` damped steps; without one where a problem was not solved."""
    found = z
    for _ in range(steps):
        value = system.evaluate(found)
        found = value if damping == 1.0 else torch.lerp(found, value, damping)
    return torch.where(converged, found, z)
