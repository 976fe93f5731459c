"""Limits: the tolerances and the iteration limit of every solver, linear or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autapse import checks
from autapse.docstrings import inherited


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The settings of every solver, linear or not.

    Args:
        rtol: relative tolerance. None: the caller of `solve` chooses it.
        atol: absolute tolerance, added to the relative one.
        max_iterations: largest number of iterations. None: the default of the method.
    """

    default_iterations: ClassVar[int]
    """The value of `max_iterations=None`, if it does not depend on the problem."""

    rtol: float | None = None
    atol: float = 0.0
    max_iterations: int | None = None

    def __init_subclass__(cls) -> None:
        if "__init__" not in vars(cls):  # help() explains the settings of base classes too
            cls.__doc__ = inherited(cls)

    def __post_init__(self) -> None:
        if self.rtol is not None:
            checks.number("rtol", self.rtol, low=0.0)
        checks.number("atol", self.atol, low=0.0)
        if self.max_iterations is not None:
            checks.integer("max_iterations", self.max_iterations, minimum=0)

    def _limit(self, default: int | None = None) -> int:
        """The iteration limit; `default` replaces that of the class."""
        if self.max_iterations is not None:
            return self.max_iterations
        return self.default_iterations if default is None else default
