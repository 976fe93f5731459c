"""Unrolled and Phantom: autograd through a few steps at the solution."""

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
        return _followed(system, z, converged, self.steps, 1.0)


@dataclass(frozen=True)
class Phantom(Gradient):
    """z ← (1 − λ)·z + λ·F(z), k times from the solution: an approximate gradient whose terms fade by 1 − λ.

    For systems that do not contract, where the terms of `Unrolled` would grow.
    """

    steps: int
    """k, the steps that autograd follows."""
    damping: float = 0.5
    """λ."""

    def __post_init__(self) -> None:
        checks.integer("steps", self.steps, minimum=1)
        checks.number("damping", self.damping, above=0.0, high=1.0)

    def attach(
        self, system: Solved, z: Tensor, converged: Tensor, rtol: float, note: Callable[[LinearReport], None]
    ) -> Tensor:
        return _followed(system, z, converged, self.steps, self.damping)


def _followed(system: Solved, z: Tensor, converged: Tensor, steps: int, damping: float) -> Tensor:
    found = z
    for _ in range(steps):
        value = system.evaluate(found)
        found = value if damping == 1.0 else torch.lerp(found, value, damping)
    return torch.where(converged, found, z)
