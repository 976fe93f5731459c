"""The temporal order problem (Hochreiter & Schmidhuber, 1997, section 5.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Generated, Kind, Metric, Split, generator, majority_error

PLACES = {2: (0.1, 0.5), 3: (0.1, 0.33, 0.66)}  # where the tenth of the sequence begins that has a relevant symbol
RELEVANT, DISTRACTORS = 2, 4  # number of symbols


@dataclass(frozen=True, kw_only=True)
class TemporalOrder(Generated):
    """X or Y at two (or three) steps among distractors a, b, c, d; the class says which of them, in which order.

    The relevant symbols are at random steps of [T/10, 2T/10) and [5T/10, 6T/10); three are in the tenths that begin at
    0.1·T, 0.33·T and 0.66·T. Channels 0 and 1 are X and Y, the others are the distractors, one-hot. With Y as 1 and X
    as 0, the class is the number in base 2 that the relevant symbols write.

    Args:
        length: Steps T of every sequence.
        relevant: Number of relevant symbols, 2 or 3.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = TemporalOrder(length=50).split("test", seed=0)
        >>> data.inputs.shape, data.targets[:4].tolist()
        ((2000, 50, 6), [2, 0, 3, 3])
    """

    length: int = 50
    relevant: int = 2

    name: ClassVar[str] = "temporal-order"
    summary: ClassVar[str] = "say which symbols were among the distractors, and in which order"
    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent class"
    solved: ClassVar[float | None] = 0.01
    input_size = RELEVANT + DISTRACTORS

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=10)
        checks.integer("relevant", self.relevant, minimum=min(PLACES), maximum=max(PLACES))

    @property
    def output_size(self) -> int:
        return int(RELEVANT**self.relevant)

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        shown = rng.integers(RELEVANT, RELEVANT + DISTRACTORS, (size, self.length))
        symbols = rng.integers(0, RELEVANT, (size, self.relevant))
        for n, place in enumerate(PLACES[self.relevant]):
            steps = rng.integers(int(place * self.length), int((place + 0.1) * self.length), size)
            shown[np.arange(size), steps] = symbols[:, n]
        classes = symbols @ (RELEVANT ** np.arange(self.relevant)[::-1])
        return Data(np.eye(self.input_size, dtype=np.float32)[shown], classes.astype(np.int64))

    def baseline(self, data: Data) -> float:
        """About 3/4 with two relevant symbols, 7/8 with three."""
        return majority_error(data.targets)

    def floor(self, data: Data) -> float:
        """0: the inputs determine the class."""
        return 0.0
