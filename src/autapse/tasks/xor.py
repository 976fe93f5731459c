"""The exclusive or of two bits that are far away from each other (Martens & Sutskever, 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse.tasks.base import Data, Kind, Metric, majority_error
from autapse.tasks.marked import Marked, Markers


@dataclass(frozen=True, kw_only=True)
class XOR(Marked):
    """x_t = (b_t, m_t) with random bits b_t and m_t = 1 at two steps i ≠ j, 0 elsewhere; y = b_i xor b_j.

    Args:
        length: Steps T of every sequence.
        markers: Which two steps are marked: anywhere; in halves (one in each half of the sequence); or early (one in
            the first tenth, the other between it and the middle, as Hochreiter & Schmidhuber have it).
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = XOR(length=50).split("test", seed=0)
        >>> data.inputs.shape, data.targets[:4].tolist()
        ((2000, 50, 2), [0, 1, 0, 1])
    """

    length: int = 50
    markers: Markers = "early"

    name: ClassVar[str] = "xor"
    summary: ClassVar[str] = "say whether the two marked bits of a long sequence differ"
    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the more frequent answer"
    solved: ClassVar[float | None] = 0.01
    output_size = 2

    def values(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.integers(0, 2, shape).astype(np.float32)

    def target(self, pairs: np.ndarray) -> np.ndarray:
        return (pairs[:, 0] != pairs[:, 1]).astype(np.int64)

    def baseline(self, data: Data) -> float:
        """The share of the less frequent answer, about 1/2."""
        return majority_error(data.targets)
