"""The copy memory task (Hochreiter & Schmidhuber, 1997; in the form of Arjovsky, Shah & Bengio, 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Generated, Kind, Metric, Split, generator


@dataclass(frozen=True, kw_only=True)
class Copy(Generated):
    """`memory` random symbols, delay − 1 blanks, a go marker, `memory` blanks; repeat the symbols after the marker.

    The target is blank at the first delay + memory steps. With s symbols, classes and one-hot channels 0 … s − 1 are
    the symbols, and s is blank. Channel s + 1 is the go marker, which is never a target.

    Args:
        delay: Steps from the last symbol to the go marker, including the marker.
        memory: Number of symbols to remember.
        symbols: Number of different symbols.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> Copy(delay=20, memory=5).split("test", seed=0).inputs.shape
        (2000, 30, 10)
    """

    delay: int = 50
    memory: int = 10
    symbols: int = 8

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

    @property
    def length(self) -> int:
        """Steps T of every sequence."""
        return self.delay + 2 * self.memory

    @property
    def input_size(self) -> int:
        return self.symbols + 2

    @property
    def output_size(self) -> int:
        return self.symbols + 1

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        blank, marker = self.symbols, self.symbols + 1
        message = rng.integers(0, self.symbols, (size, self.memory))
        shown = np.full((size, self.length), blank)
        shown[:, : self.memory] = message
        shown[:, -self.memory - 1] = marker
        targets = np.full((size, self.length), blank)
        targets[:, -self.memory :] = message
        return Data(np.eye(self.input_size, dtype=np.float32)[shown], targets)

    def baseline(self, data: Data) -> float:
        """memory·ln(symbols) / T: without memory, only the blanks can be predicted."""
        return self.memory * math.log(self.symbols) / self.length

    def floor(self, data: Data) -> float:
        """0: the inputs determine the symbols."""
        return 0.0
