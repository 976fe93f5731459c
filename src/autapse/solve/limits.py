"""Limits: how exact a solver shall be, and how long it may take; the settings that all solvers have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autapse import checks


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What every solver, linear or not, takes by keyword; not for direct use."""

    default_iterations: ClassVar[int]
    """What `max_iterations=None` stands for, where it does not depend on the problem."""

    rtol: float | None = None
    """Relative tolerance; None leaves it to the caller."""
    atol: float = 0.0
    """Absolute tolerance, added to the relative one."""
    max_iterations: int | None = None
    """Iterations at most; None is the method's own default."""

    def __post_init__(self) -> None:
        if self.rtol is not None:
            checks.number("rtol", self.rtol, low=0.0)
        checks.number("atol", self.atol, low=0.0)
        if self.max_iterations is not None:
            checks.integer("max_iterations", self.max_iterations, minimum=0)

    def _limit(self, default: int | None = None) -> int:
        """Iterations at most, `default` or else the method's own where none is set."""
        if self.max_iterations is not None:
            return self.max_iterations
        return self.default_iterations if default is None else default
