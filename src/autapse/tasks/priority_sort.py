"""Priority sort (Graves, Wayne & Danihelka, 2014, section 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Split
from autapse.tasks.recall import Episode, Recall, answered


@dataclass(frozen=True, kw_only=True)
class PrioritySort(Recall):
    """Symbols, each with a priority from −1 to 1, then a marker; answer the symbols, highest priority first.

    The channels are one per symbol, the priority, and the marker. All channels are 0 during the answer.

    Args:
        symbols: Number of different symbols.
        shortest: Length of the shortest list. Each sequence draws its own length.
        longest: Length of the longest list.
        test_shortest: The same in the test set; None: as in training.
        test_longest: The same in the test set; None: as in training.
        answers: Number of symbols to answer, those with the highest priorities; None: all.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> PrioritySort(longest=5).split("test", seed=0).inputs.shape
        (2000, 11, 10)
    """

    answers: int | None = None

    name: ClassVar[str] = "priority-sort"
    summary: ClassVar[str] = "sort a list of symbols by their priorities"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.answers is not None:
            checks.integer("answers", self.answers, minimum=1)

    @property
    def input_size(self) -> int:
        return self.symbols + 2

    @property
    def output_size(self) -> int:
        return self.symbols

    def episode(self, rng: np.random.Generator, count: int, split: Split) -> Episode:
        items, priorities = rng.integers(0, self.symbols, count), rng.uniform(-1, 1, count).astype(np.float32)
        answer = items[np.argsort(-priorities, kind="stable")][: self.answers]
        steps = count + 1 + len(answer)
        shown = self.one_hot(steps, [(0, items)])
        shown[:count, self.symbols] = priorities
        shown[count, self.symbols + 1] = 1.0
        return Episode(shown, answered(steps, answer))
