"""Following pointers: a state whose change from step to step takes several lookups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import IGNORE, Data, Generated, Kind, Metric, Split, generator, majority_error


@dataclass(frozen=True, kw_only=True)
class Pointers(Generated):
    """Each table has a random pointer for every place; from the present place, follow `hops` pointers.

    A sequence begins at place 0. A step with a table f moves it from place p to f(f(…f(p)…)), and the target is the new
    place. After each table there are `pause` steps without input and without a target, over which the place must be
    remembered. Channel places·p + q is 1 if the pointer of place p leads to q.

    Args:
        places: Number of places, which are the classes.
        hops: Number of pointers to follow in each table.
        tables: Tables in a sequence.
        pause: Steps without input after each table.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> Pointers(places=4, tables=5, pause=2).split("test", seed=0).inputs.shape
        (2000, 15, 16)
    """

    places: int = 4
    hops: int = 2
    tables: int = 6
    pause: int = 0

    name: ClassVar[str] = "pointers"
    summary: ClassVar[str] = "follow pointers through one random table after the other"
    kind: ClassVar[Kind] = "tagging"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent place"
    solved: ClassVar[float | None] = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("places", self.places, minimum=2)
        checks.integer("hops", self.hops, minimum=1)
        checks.integer("tables", self.tables, minimum=1)
        checks.integer("pause", self.pause, minimum=0)

    @property
    def length(self) -> int:
        """Steps T of every sequence."""
        return self.tables * (self.pause + 1)

    @property
    def input_size(self) -> int:
        return self.places**2

    @property
    def output_size(self) -> int:
        return self.places

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        pointers = rng.integers(0, self.places, (size, self.tables, self.places))
        place, visited = np.zeros(size, dtype=np.int64), []
        for table in pointers.swapaxes(0, 1):
            for _ in range(self.hops):
                place = table[np.arange(size), place]
            visited.append(place)
        inputs = np.zeros((size, self.length, self.input_size), dtype=np.float32)
        targets = np.full((size, self.length), IGNORE)
        one_hot = np.eye(self.places, dtype=np.float32)[pointers]
        inputs[:, :: self.pause + 1] = one_hot.reshape(size, self.tables, self.input_size)
        targets[:, :: self.pause + 1] = np.stack(visited, axis=1)
        return Data(inputs, targets)

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> float:
        """0: the tables determine the places."""
        return 0.0
