"""What tasks share that show symbols and then ask for them: lengths that differ, and longer ones in the test set."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from autapse import checks
from autapse.tasks.base import IGNORE, Data, Generated, Kind, Metric, Split, generator, majority_error


class Episode(NamedTuple):
    """One sequence."""

    shown: np.ndarray  # [T, D] float32
    asked: np.ndarray  # [T] int64, the symbol to answer at each step, IGNORE where none is asked


@dataclass(frozen=True, kw_only=True)
class Recall(Generated):
    """Symbols are shown, then some of them are asked for. Only the steps of the answer count.

    Args:
        symbols: Number of different symbols.
        shortest: Smallest number of items to remember. Each sequence draws its own number.
        longest: Largest number of items to remember.
        test_shortest: The same in the test set; None: as in training.
        test_longest: The same in the test set; None: as in training.
    """

    symbols: int = 8
    shortest: int = 1
    longest: int = 10
    test_shortest: int | None = None
    test_longest: int | None = None

    kind: ClassVar[Kind] = "tagging"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent answer"
    solved: ClassVar[float | None] = 0.01
    fewest: ClassVar[int] = 1
    """The smallest number of items that makes sense."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("symbols", self.symbols, minimum=2)
        checks.integer("shortest", self.shortest, minimum=self.fewest)
        checks.integer("longest", self.longest, minimum=self.shortest)
        low = self.shortest
        if self.test_shortest is not None:
            low = checks.integer("test_shortest", self.test_shortest, minimum=self.fewest)
        high = self.longest if self.test_longest is None else checks.integer("test_longest", self.test_longest)
        if high < low:
            name = "test_shortest" if self.test_longest is None else "test_longest"
            checks.fail(name, "keep the shortest test list at most as long as the longest", (low, high))

    def limits(self, split: Split) -> tuple[int, int]:
        """The smallest and the largest number of items in a split."""
        if split != "test":
            return self.shortest, self.longest
        low = self.shortest if self.test_shortest is None else self.test_shortest
        return low, self.longest if self.test_longest is None else self.test_longest

    @abstractmethod
    def episode(self, rng: np.random.Generator, count: int, split: Split) -> Episode:
        """One sequence with `count` items."""

    def split(self, split: Split, seed: int) -> Data:
        rng, (low, high) = generator(split, seed), self.limits(split)
        counts = rng.integers(low, high + 1, self.size(split))
        return padded([self.episode(rng, int(count), split) for count in counts])

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> float:
        """0: the inputs determine the answer."""
        return 0.0

    def one_hot(self, steps: int, symbols: Iterable[tuple[int, np.ndarray]]) -> np.ndarray:  # [steps, input_size]
        """Inputs that are 0, except for symbols from given steps on."""
        shown = np.zeros((steps, self.input_size), dtype=np.float32)
        for first, which in symbols:
            shown[np.arange(first, first + len(which)), which] = 1.0
        return shown


def answered(steps: int, answer: np.ndarray) -> np.ndarray:  # [steps]
    """Targets: the answer at the last steps, and nothing before."""
    return np.concatenate([np.full(steps - len(answer), IGNORE), answer])


def padded(episodes: list[Episode]) -> Data:
    """Episodes as data. There are no lengths if all are the same."""
    lengths = np.array([len(episode.asked) for episode in episodes])
    shape = (len(episodes), int(lengths.max()))
    inputs = np.zeros((*shape, episodes[0].shown.shape[1]), dtype=np.float32)
    targets = np.full(shape, IGNORE)
    for n, (shown, asked) in enumerate(episodes):
        inputs[n, : len(shown)] = shown
        targets[n, : len(asked)] = asked
    return Data(inputs, targets, None if (lengths == shape[1]).all() else lengths)
