"""The adding problem (Hochreiter & Schmidhuber, 1997; paper: recurrent identity networks, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Generated, Kind, Metric, Split, generator

Markers = Literal["anywhere", "halves"]


@dataclass(frozen=True, kw_only=True)
class Adding(Generated):
    """x_t = (u_t, m_t) with u_t uniform in [0, 1) and m_t = 1 at two steps i ≠ j, 0 elsewhere; y = u_i + u_j.

    Args:
        length: Steps T of every sequence.
        markers: Which two steps are marked: anywhere, or in halves (one in each half of the sequence).
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = Adding(length=50).split("test", seed=0)
        >>> data.inputs.shape, data.targets.shape
        ((2000, 50, 2), (2000, 1))
    """

    train_size: int = 20_000
    length: int = 40
    markers: Markers = "anywhere"

    name: ClassVar[str] = "adding"
    summary: ClassVar[str] = "add the two marked numbers of a long sequence"
    kind: ClassVar[Kind] = "regression"
    metric: ClassVar[Metric] = "mean squared error"
    baseline_text: ClassVar[str] = "always 1, the mean of the sum"
    solved: ClassVar[float | None] = 0.01
    input_size = 2
    output_size = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=2)
        checks.one_of("markers", self.markers, get_args(Markers))

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        inputs = np.zeros((size, self.length, 2), dtype=np.float32)
        inputs[..., 0] = rng.random((size, self.length), dtype=np.float32)
        marked = np.arange(size)[:, None], self._marked(size, rng)
        inputs[*marked, 1] = 1
        return Data(inputs, inputs[*marked, 0].sum(axis=1, keepdims=True))

    def _marked(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Two different steps per sequence, [size, 2]."""
        if self.markers == "halves":
            half = self.length // 2
            return np.stack([rng.integers(0, half, size), rng.integers(half, self.length, size)], axis=1)
        first, other = rng.integers(0, self.length, size), rng.integers(0, self.length - 1, size)
        return np.stack([first, other + (other >= first)], axis=1)

    def baseline(self, data: Data) -> float:
        """1/6, the variance of the sum of two uniform numbers."""
        return 1 / 6

    def floor(self, data: Data) -> float:
        """0: the inputs determine the sum."""
        return 0.0
