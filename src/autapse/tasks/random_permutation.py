"""The random permutation problem (Martens & Sutskever, 2011; after Hochreiter & Schmidhuber, 1997, section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Generated, Kind, Metric, Split, generator, majority_error

FIRST = 2  # symbols that a sequence may begin with


@dataclass(frozen=True, kw_only=True)
class RandomPermutation(Generated):
    """Symbol 0 or 1, then T − 1 random symbols from 2 on; predict the next one, which is the first again.

    Only this last symbol can be predicted, so it is the only target. The papers also ask for the symbols before it.
    The distractors are a random permutation of all symbols from 2 on, and further ones if the sequence is longer.

    Args:
        length: Steps T of every sequence.
        symbols: Number of different symbols; the input is one-hot.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = RandomPermutation(length=50).split("test", seed=0)
        >>> data.inputs.shape, data.targets[:4].tolist()
        ((2000, 50, 100), [1, 0, 0, 0])
    """

    train_size: int = 5_000
    length: int = 50
    symbols: int = 100

    name: ClassVar[str] = "random-permutation"
    summary: ClassVar[str] = "repeat the first symbol after many random ones"
    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the more frequent first symbol"
    solved: ClassVar[float | None] = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=2)
        checks.integer("symbols", self.symbols, minimum=FIRST + 1)

    @property
    def input_size(self) -> int:
        return self.symbols

    @property
    def output_size(self) -> int:
        return self.symbols

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        first = rng.integers(0, FIRST, size)
        rounds = -(-(self.length - 1) // (self.symbols - FIRST))
        ordered = np.tile(np.arange(FIRST, self.symbols), (size * rounds, 1))
        others = rng.permuted(ordered, axis=1).reshape(size, -1)[:, : self.length - 1]
        shown = np.concatenate([first[:, None], others], axis=1)
        return Data(np.eye(self.symbols, dtype=np.float32)[shown], first.astype(np.int64))

    def baseline(self, data: Data) -> float:
        """The share of the less frequent first symbol, about 1/2."""
        return majority_error(data.targets)

    def floor(self, data: Data) -> float:
        """0: the first symbol determines the last one."""
        return 0.0
