"""Phantom: autograd through a few damped steps at the solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from autapse import checks
from autapse.gradient.base import Gradient, Solved
from autapse.gradient.unrolled import followed
from autapse.solve import LinearReport


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
        return followed(system, z, converged, self.steps, self.damping)
