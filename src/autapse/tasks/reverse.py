"""Reversal of a list of symbols: the simplest translation in which the first word that is read is written last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Generated, Kind, Metric, Signature, Split, WrittenShape, generator

Order = Literal["backwards", "forwards"]


@dataclass(frozen=True, kw_only=True)
class Reverse(Generated):
    """x is a list of random symbols; y is the same list from its end to its beginning.

    Args:
        shortest: Length of the shortest list.
        length: Length of the longest list; lengths are uniform between the two.
        symbols: Number of different symbols.
        order: Write the list backwards, or forwards, as it is.
        score_length: Length of all lists for validation and test; by default they are as long as in training.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = Reverse(length=5, shortest=5).split("test", seed=0)
        >>> bool((data.inputs[0][::-1, 0] == data.targets[0]).all())
        True
    """

    shortest: int = 1
    length: int = 20
    symbols: int = 10
    order: Order = "backwards"
    score_length: int | None = None

    name: ClassVar[str] = "reverse"
    summary: ClassVar[str] = "write a list of symbols in reverse order"
    kind: ClassVar[Kind] = "translation"
    metric: ClassVar[Metric] = "wrong sequences"
    baseline_text: ClassVar[str] = "a random list of the right length"
    solved: ClassVar[float | None] = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("shortest", self.shortest, minimum=1)
        checks.integer("length", self.length, minimum=self.shortest)
        checks.integer("symbols", self.symbols, minimum=2)
        checks.one_of("order", self.order, get_args(Order))
        if self.score_length is not None:
            checks.integer("score_length", self.score_length, minimum=1)

    @property
    def input_size(self) -> int:
        return 1

    @property
    def output_size(self) -> int:
        return self.symbols

    def signature(self) -> Signature:
        names = tuple(map(str, range(self.symbols)))
        return Signature(
            kind=self.kind,
            input_size=1,
            output_size=self.symbols,
            vocabularies=(names,),
            classes=names,
            written=WrittenShape(depends="source", longest=max(self.length, self.score_length or 1) + 1),
        )

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        lengths = rng.integers(self.shortest, self.length + 1, size)
        if self.score_length is not None and split != "train":
            lengths[:] = self.score_length
        symbols = Ragged(rng.integers(0, self.symbols, lengths.sum()), lengths)
        step = -1 if self.order == "backwards" else 1
        return Data(Ragged(symbols.values[:, None], lengths), Ragged.of([symbols[n][::step] for n in range(size)]))

    def baseline(self, data: Data) -> float:
        """The chance that a random list has a wrong symbol."""
        assert isinstance(data.targets, Ragged)
        return float(np.mean(1 - float(self.symbols) ** -data.targets.lengths.astype(float)))

    def floor(self, data: Data) -> float:
        """0: the list determines the answer."""
        return 0.0
