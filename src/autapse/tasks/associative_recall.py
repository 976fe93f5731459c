"""Associative recall (Graves, Wayne & Danihelka, 2014, section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Split
from autapse.tasks.recall import Episode, Recall, answered


@dataclass(frozen=True, kw_only=True)
class AssociativeRecall(Recall):
    """A list of items, each of several symbols; then one of them is the query. Answer the item after it in the list.

    The channels are one per symbol, a mark before each item, and a mark before and after the query. All channels are 0
    during the answer. The items of a sequence are all different. The query is any item but the last.

    Args:
        symbols: Number of different symbols.
        shortest: Smallest number of items, at least 2. Each sequence draws its own number.
        longest: Largest number of items.
        test_shortest: The same in the test set; None: as in training.
        test_longest: The same in the test set; None: as in training.
        item_length: Symbols of an item.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> AssociativeRecall(longest=4).split("test", seed=0).inputs.shape
        (2000, 24, 10)
    """

    shortest: int = 2
    longest: int = 6
    item_length: int = 3

    name: ClassVar[str] = "associative-recall"
    summary: ClassVar[str] = "find an item in a list, and answer the item after it"
    fewest: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("item_length", self.item_length, minimum=1)
        most = max(self.longest, self.test_longest or 0)
        if self.symbols**self.item_length < most:
            rule = f"give at least {most} different items, as many as the longest list has"
            checks.fail("symbols, item_length", rule, (self.symbols, self.item_length))

    @property
    def input_size(self) -> int:
        return self.symbols + 2

    @property
    def output_size(self) -> int:
        return self.symbols

    def episode(self, rng: np.random.Generator, count: int, split: Split) -> Episode:
        items = self._different(rng, count)
        query = int(rng.integers(0, count - 1))
        each = self.item_length + 1  # steps of an item with its mark
        marks = each * np.arange(count)
        asked = each * count  # the first mark of the query
        steps = asked + self.item_length + 2 + self.item_length
        starts = [*(marks + 1), asked + 1]
        shown = self.one_hot(steps, zip(starts, [*items, items[query]], strict=True))
        shown[marks, self.symbols] = 1.0
        shown[[asked, asked + each], self.symbols + 1] = 1.0
        return Episode(shown, answered(steps, items[query + 1]))

    def _different(self, rng: np.random.Generator, count: int) -> np.ndarray:  # [count, item_length]
        """Items that are all different. Those that repeat an earlier one are drawn again."""
        items = rng.integers(0, self.symbols, (count, self.item_length))
        while len(first := np.unique(items, axis=0, return_index=True)[1]) < count:
            again = np.setdiff1d(np.arange(count), first)
            items[again] = rng.integers(0, self.symbols, (len(again), self.item_length))
        return items
