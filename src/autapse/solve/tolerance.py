"""Tolerance: how exactly a layer solves its equations, in training and in evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from autapse import checks


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Relative tolerances of a layer: loose in training mode, tight in evaluation mode.

    With `first` and `steps`, training starts at the tolerance `first`, which falls to `training` over that many calls,
    evenly on a logarithmic scale. The tolerance of the adjoint changes in proportion.

    Args:
        training: tolerance of the states in training mode.
        adjoint: tolerance of the adjoint in training mode.
        evaluation: tolerance of both in evaluation mode.
        first: tolerance of the states at the first training call. None: it does not change.
        steps: number of training calls over which `first` falls to `training`.

    >>> autapse.solve.Tolerance(training=1e-2, adjoint=2e-2, first=1.0, steps=2).at(training=True, calls=1)
    (0.1, 0.2)
    """

    training: float = 1e-2
    adjoint: float = 3e-2
    evaluation: float = 1e-4
    first: float | None = None
    steps: int = 0

    def __post_init__(self) -> None:
        for name in ("training", "adjoint", "evaluation"):
            checks.number(name, getattr(self, name), above=0.0)
        if self.first is not None:
            checks.number("first", self.first, above=0.0)
        checks.integer("steps", self.steps, minimum=1 if self.first is not None else 0)

    def at(self, training: bool, calls: int) -> tuple[float, float]:
        """The tolerances of the states and of the adjoint, in training mode or not, after `calls` training calls."""
        if not training:
            return self.evaluation, self.evaluation
        factor = 1.0
        if self.first is not None and calls < self.steps:
            factor = (self.first / self.training) ** (1 - calls / self.steps)
        return self.training * factor, self.adjoint * factor
