"""Tasks on two marked steps of a long sequence."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Generated, Split, generator

Markers = Literal["anywhere", "halves", "early"]


@dataclass(frozen=True, kw_only=True)
class Marked(Generated):
    """x_t = (v_t, m_t) with random values v_t and m_t = 1 at two steps i ≠ j, 0 elsewhere; y depends on v_i and v_j.

    Args:
        length: Steps T of every sequence.
        markers: Which two steps are marked: anywhere; in halves (one in each half of the sequence); or early (one in
            the first tenth, the other between it and the middle, as Hochreiter & Schmidhuber have it).
    """

    length: int = 40
    markers: Markers = "anywhere"

    input_size = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=4 if self.markers == "early" else 2)
        checks.one_of("markers", self.markers, get_args(Markers))

    @abstractmethod
    def values(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """The random values, float32."""

    @abstractmethod
    def target(self, pairs: np.ndarray) -> np.ndarray:  # [N, 2] -> the targets
        """What is to be computed from the two marked values of each sequence."""

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        inputs = np.zeros((size, self.length, 2), dtype=np.float32)
        inputs[..., 0] = self.values(rng, (size, self.length))
        marked = np.arange(size)[:, None], self._marked(size, rng)
        inputs[*marked, 1] = 1
        return Data(inputs, self.target(inputs[*marked, 0]))

    def _marked(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Two different steps per sequence, [size, 2]."""
        if self.markers != "anywhere":
            half = self.length // 2
            start, end = (half, self.length) if self.markers == "halves" else (max(1, self.length // 10), half)
            return np.stack([rng.integers(0, start, size), rng.integers(start, end, size)], axis=1)
        first, other = rng.integers(0, self.length, size), rng.integers(0, self.length - 1, size)
        return np.stack([first, other + (other >= first)], axis=1)

    def floor(self, data: Data) -> float:
        """0: the inputs determine the target."""
        return 0.0
