"""The chains that layers use by default, and the tolerances they ask for."""

from __future__ import annotations

from dataclasses import dataclass

from autapse import checks
from autapse.solve.chain import Chain, Stage
from autapse.solve.fixed_point import Anderson, FixedPoint, Tridiagonal
from autapse.solve.krylov import GMRES
from autapse.solve.newton import Newton
from autapse.solve.sweeps import Sweeps


def recommended() -> Chain:
    """For systems with elementwise couplings on a line.

    Two opposite regimes are hard. Near a fold, Newton with a line search and acceleration from the start stall where
    the plain iteration gets through; where some modes of J exceed 1 the plain iteration cycles, and acceleration or
    Newton's full step works. So each stage after the first is for what the others cannot do.
    """
    newton = Newton(linear=GMRES(max_iterations=40), max_iterations=12)
    return Chain(
        Tridiagonal(),
        newton,
        Stage(Tridiagonal(threshold=float("inf"), max_iterations=100), begin="zero"),
        Stage(Tridiagonal(window=0, max_iterations=300), begin="zero"),
        Stage(Chain(Sweeps(max_iterations=40), newton), begin="zero"),
    )


def general() -> Chain:
    """For any system."""
    return Chain(
        Anderson(max_iterations=60),
        Newton(linear=GMRES(max_iterations=40)),
        Stage(FixedPoint(damping=0.5, max_iterations=300), begin="zero"),
        Newton(linear=GMRES(max_iterations=100), line_search=True, max_iterations=40),
    )


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Relative tolerances of a layer's solves: loose while it trains, tight in evaluation.

    With `first` and `steps` training begins at `first` and comes down to `training` over that many calls, evenly in the
    logarithm; the adjoint's follows in proportion.
    """

    training: float = 1e-2
    """Of the states in training mode."""
    adjoint: float = 3e-2
    """Of the adjoint in training mode."""
    evaluation: float = 1e-4
    """Of both in evaluation mode."""
    first: float | None = None
    """Of the states at the first training call; None for no schedule."""
    steps: int = 0
    """Training calls over which `first` comes down to `training`."""

    def __post_init__(self) -> None:
        for name in ("training", "adjoint", "evaluation"):
            checks.number(name, getattr(self, name), above=0.0)
        if self.first is not None:
            checks.number("first", self.first, above=0.0)
        checks.integer("steps", self.steps, minimum=1 if self.first is not None else 0)

    def at(self, training: bool, calls: int) -> tuple[float, float]:
        """Of the states and of the adjoint, in a mode, after so many training calls."""
        if not training:
            return self.evaluation, self.evaluation
        factor = 1.0
        if self.first is not None and calls < self.steps:
            factor = (self.first / self.training) ** (1 - calls / self.steps)
        return self.training * factor, self.adjoint * factor
