"""The copy memory task (Hochreiter & Schmidhuber, 1997; in the form of Arjovsky, Shah & Bengio, 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Generated, Kind, Metric, Split, dense, generator
from autapse.tasks.recall import Episode, padded


@dataclass(frozen=True, kw_only=True)
class Copy(Generated):
    """`memory` random symbols, delay − 1 blanks, a go marker, `memory` blanks; repeat the symbols after the marker.

    The target is blank at the first delay + memory steps. With s symbols, classes and one-hot channels 0 … s − 1 are
    the symbols, and s is blank. Channel s + 1 is the go marker, which is never a target.

    Args:
        delay: Steps from the last symbol to the go marker, including the marker.
        memory: Number of symbols to remember; the largest number, if `shortest` is given.
        symbols: Number of different symbols.
        shortest: Smallest number of symbols to remember. Each sequence then draws its own number. None: all sequences
            have `memory` symbols.
        test_shortest: The same in the test set; None: as in training, or test_memory if `shortest` is None.
        test_memory: Largest number of symbols in the test set; None: as in training.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> Copy(delay=20, memory=5).split("test", seed=0).inputs.shape
        (2000, 30, 10)
    """

    delay: int = 50
    memory: int = 10
    symbols: int = 8
    shortest: int | None = None
    test_shortest: int | None = None
    test_memory: int | None = None

    name: ClassVar[str] = "copy"
    summary: ClassVar[str] = "repeat a list of symbols after a long delay"
    kind: ClassVar[Kind] = "tagging"
    metric: ClassVar[Metric] = "cross-entropy"
    baseline_text: ClassVar[str] = "blank up to the go marker, then every symbol equally likely"
    solved: ClassVar[float | None] = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("delay", self.delay, minimum=1)
        checks.integer("memory", self.memory, minimum=1)
        checks.integer("symbols", self.symbols, minimum=2)
        for name in ("shortest", "test_shortest", "test_memory"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), minimum=1)
        for name, (low, high) in {"shortest": self.limits("train"), "test_shortest": self.limits("test")}.items():
            if low > high:
                checks.fail(name, f"be at most the largest number of symbols, {high}", low)

    def limits(self, split: Split) -> tuple[int, int]:
        """The smallest and the largest number of symbols in a split."""
        if split != "test":
            return self.shortest or self.memory, self.memory
        most = self.test_memory or self.memory
        return self.test_shortest or self.shortest or most, most

    @property
    def length(self) -> int:
        """Steps T of the longest training sequence."""
        return self.delay + 2 * self.memory

    @property
    def input_size(self) -> int:
        return self.symbols + 2

    @property
    def output_size(self) -> int:
        return self.symbols + 1

    def split(self, split: Split, seed: int) -> Data:
        rng, size, (low, high) = generator(split, seed), self.size(split), self.limits(split)
        messages = rng.integers(0, self.symbols, (size, high))
        counts = rng.integers(low, high + 1, size) if low < high else [high] * size
        return padded([self._episode(message[:count]) for message, count in zip(messages, counts, strict=True)])

    def _episode(self, message: np.ndarray) -> Episode:
        blank, marker = self.symbols, self.symbols + 1
        waiting, answering = np.full(self.delay, blank), np.full(len(message), blank)
        waiting[-1] = marker
        shown = np.concatenate([message, waiting, answering])
        asked = np.concatenate([np.full(len(message) + self.delay, blank), message])
        return Episode(np.eye(self.input_size, dtype=np.float32)[shown], asked)

    def baseline(self, data: Data) -> float:
        """memory·ln(symbols) / T: without memory, only the blanks can be predicted."""
        if data.lengths is None:
            length = dense(data.targets).shape[1]
            return (length - self.delay) / 2 * math.log(self.symbols) / length
        return float((data.lengths - self.delay).sum() / 2 * math.log(self.symbols) / data.lengths.sum())

    def floor(self, data: Data) -> float:
        """0: the inputs determine the symbols."""
        return 0.0
