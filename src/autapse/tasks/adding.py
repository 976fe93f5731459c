"""The adding problem (Hochreiter & Schmidhuber, 1997; paper: recurrent identity networks, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse.tasks.base import Data, Kind, Metric
from autapse.tasks.marked import Marked


@dataclass(frozen=True, kw_only=True)
class Adding(Marked):
    """x_t = (u_t, m_t) with u_t uniform in [0, 1) and m_t = 1 at two steps i ≠ j, 0 elsewhere; y = u_i + u_j.

    Args:
        length: Steps T of every sequence.
        markers: Which two steps are marked: anywhere; in halves (one in each half of the sequence); or early (one in
            the first tenth, the other between it and the middle, as Hochreiter & Schmidhuber have it).
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = Adding(length=50).split("test", seed=0)
        >>> data.inputs.shape, data.targets.shape
        ((2000, 50, 2), (2000, 1))
    """

    train_size: int = 20_000

    name: ClassVar[str] = "adding"
    summary: ClassVar[str] = "add the two marked numbers of a long sequence"
    kind: ClassVar[Kind] = "regression"
    metric: ClassVar[Metric] = "mean squared error"
    baseline_text: ClassVar[str] = "always 1, the mean of the sum"
    solved: ClassVar[float | None] = 0.01
    output_size = 1

    def values(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.random(shape, dtype=np.float32)

    def target(self, pairs: np.ndarray) -> np.ndarray:
        total: np.ndarray = pairs.sum(axis=1, keepdims=True)
        return total

    def baseline(self, data: Data) -> float:
        """1/6, the variance of the sum of two uniform numbers."""
        return 1 / 6
