"""FixedPoint and Anderson: solvers that need only F."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autapse import checks
from autapse.solve.acceleration import AcceleratedSolver, Damped
from autapse.solve.base import IterativeSolver
from autapse.solve.loop import Goal


@dataclass(frozen=True, kw_only=True)
class FixedPoint(IterativeSolver):
    """z ← z + damping·(F(z) − z), up to 200 iterations.

    Args:
        damping: the fraction of each step that is taken, above 0 and at most 1.

    >>> cosine = autapse.solve.Equations(torch.cos, start=torch.zeros(1, 1))
    >>> z, report = autapse.solve.FixedPoint(rtol=1e-6).solve(cosine)
    >>> round(float(z), 4), report.finished_by
    (0.7391, ('fixed point',))
    """

    default_iterations: ClassVar[int] = 200

    damping: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("damping", self.damping, above=0.0, high=1.0)

    def _iteration(self, goal: Goal) -> Damped:
        return Damped(goal, damping=self.damping)


@dataclass(frozen=True, kw_only=True)
class Anderson(AcceleratedSolver):
    """`FixedPoint` with Anderson acceleration: each step is extrapolated from the last few, up to 200 iterations.

    Acceleration starts when the relative residual is below `threshold`. After an accelerated step that leaves more than
    `guard` of the residual, the problem takes 4 plain steps, after the next one 8, then 16, and so on.

    Args:
        damping: the fraction of each step that is taken, above 0 and at most 1.

    >>> equations = autapse.solve.Equations(lambda z, b: 0.99 * torch.cos(z) * b, torch.ones(1, 1))
    >>> plain, accelerated = (s.solve(equations)[1] for s in (autapse.solve.FixedPoint(), autapse.solve.Anderson()))
    >>> bool(accelerated.iterations < plain.iterations / 2)
    True
    """

    default_iterations: ClassVar[int] = 200

    damping: float = 1.0
    window: int = 5
    threshold: float = float("inf")
    guard: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("damping", self.damping, above=0.0, high=1.0)

    def _iteration(self, goal: Goal) -> Damped:
        return Damped(goal, *self._acceleration, self.damping)
