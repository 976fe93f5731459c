"""Phantom: autograd through a few damped steps at the solution."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from autapse import checks
from autapse.gradient.base import AdjointNote, ClosedForm, Gradient, Solved
from autapse.gradient.unrolled import followed


@dataclass(frozen=True)
class Phantom(Gradient):
    """z ← (1 − λ)·z + λ·F(z), k times from the solution, with autograd: an approximate gradient.

    It is for systems that do not contract, where the terms of `Unrolled` would grow.

    Args:
        steps: k, the number of steps.
        damping: λ, above 0 and at most 1.

    >>> layer = autapse.ImplicitGRU(3, 4, gradient=autapse.gradient.Phantom(5, damping=0.5))
    >>> layer(torch.zeros(5, 2, 3))[0].sum().backward()
    """

    steps: int
    damping: float = 0.5

    def __post_init__(self) -> None:
        checks.integer("steps", self.steps, minimum=1)
        checks.number("damping", self.damping, above=0.0, high=1.0)

    def attach(
        self, system: Solved | ClosedForm, z: Tensor, converged: Tensor | None, rtol: float, note: AdjointNote
    ) -> Tensor:
        return followed(system.evaluate, z, converged, self.steps, self.damping)
