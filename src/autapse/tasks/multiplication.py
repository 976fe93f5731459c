"""The multiplication problem (Hochreiter & Schmidhuber, 1997, section 5.5; Martens & Sutskever, 2011)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Kind, Metric
from autapse.tasks.marked import Marked, Markers


@dataclass(frozen=True, kw_only=True)
class Multiplication(Marked):
    """x_t = (u_t, m_t) with u_t uniform in [0, 1) and m_t = 1 at two steps i ≠ j, 0 elsewhere; y = u_i·u_j.

    An answer is wrong if it differs from the product by more than `tolerance`: 0.04 in Hochreiter & Schmidhuber, 0.2 in
    the code of Pascanu et al. (2013), which counts squared errors above 0.04. Training minimises the squared error.

    Args:
        length: Steps T of every sequence.
        markers: Which two steps are marked: anywhere; in halves (one in each half of the sequence); or early (one in
            the first tenth, the other between it and the middle, as Hochreiter & Schmidhuber have it).
        tolerance: Largest error of an answer that is right.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = Multiplication(length=50).split("test", seed=0)
        >>> data.inputs.shape, data.targets.shape
        ((2000, 50, 2), (2000, 1))
    """

    length: int = 50
    markers: Markers = "early"
    tolerance: float = 0.04

    name: ClassVar[str] = "multiplication"
    summary: ClassVar[str] = "multiply the two marked numbers of a long sequence"
    kind: ClassVar[Kind] = "regression"
    metric: ClassVar[Metric] = "wrong answers"
    baseline_text: ClassVar[str] = "always 1/4, the mean of the product"
    solved: ClassVar[float | None] = 0.01
    output_size = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("tolerance", self.tolerance, above=0.0)

    def values(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.random(shape, dtype=np.float32)

    def target(self, pairs: np.ndarray) -> np.ndarray:
        product: np.ndarray = pairs.prod(axis=1, keepdims=True)
        return product

    def baseline(self, data: Data) -> float:
        """1 − F(1/4 + tolerance) + F(1/4 − tolerance), where F(p) = p − p·ln p is the product's distribution."""
        return 1 - _at_most(0.25 + self.tolerance) + _at_most(0.25 - self.tolerance)


def _at_most(p: float) -> float:
    """The probability that the product of two uniform numbers is at most p."""
    return p - p * math.log(p) if 0 < p < 1 else float(p >= 1)
