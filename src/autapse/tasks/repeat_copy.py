"""Repeat copy (Graves, Wayne & Danihelka, 2014, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Split
from autapse.tasks.recall import Episode, Recall, answered


@dataclass(frozen=True, kw_only=True)
class RepeatCopy(Recall):
    """A list of symbols, then a marker with a number; answer the list that many times, then the end mark.

    The channels are one per symbol, 1 at the marker, and the number of repeats divided by `repeats` at the marker. All
    channels are 0 during the answer. Classes 0 … symbols − 1 are the symbols, the last class is the end mark.

    Args:
        symbols: Number of different symbols.
        shortest: Length of the shortest list. Each sequence draws its own length.
        longest: Length of the longest list.
        test_shortest: The same in the test set; None: as in training.
        test_longest: The same in the test set; None: as in training.
        repeats: Largest number of repeats. Each sequence draws its own number, from 1.
        test_repeats: The same in the test set; None: as in training.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> RepeatCopy(longest=4, repeats=2).split("test", seed=0).inputs.shape
        (2000, 14, 10)
    """

    repeats: int = 5
    test_repeats: int | None = None

    name: ClassVar[str] = "repeat-copy"
    summary: ClassVar[str] = "repeat a list of symbols a given number of times"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("repeats", self.repeats, minimum=1)
        if self.test_repeats is not None:
            checks.integer("test_repeats", self.test_repeats, minimum=1)

    @property
    def input_size(self) -> int:
        return self.symbols + 2

    @property
    def output_size(self) -> int:
        return self.symbols + 1

    def episode(self, rng: np.random.Generator, count: int, split: Split) -> Episode:
        most = self.test_repeats if split == "test" and self.test_repeats is not None else self.repeats
        times = int(rng.integers(1, most + 1))
        items = rng.integers(0, self.symbols, count)
        answer = np.append(np.tile(items, times), self.symbols)
        steps = count + 1 + len(answer)
        shown = self.one_hot(steps, [(0, items)])
        shown[count, self.symbols :] = 1.0, times / self.repeats
        return Episode(shown, answered(steps, answer))
