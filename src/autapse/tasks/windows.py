"""Windows of long series: what a forecast reads, what it is compared with, and the split in time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks.base import Split

MOST = {"train": 1_000_000, "validation": 2_000, "test": 20_000}
"""Most windows of a split. If there are more, every second, third, ... one is used."""


@dataclass(frozen=True, eq=False)
class Windows(Ragged):
    """Windows that overlap, without a copy of each: window n is values[first[n] : first[n] + lengths[n]].

    Args:
        values: [total steps, channels] the steps of all series.
        lengths: [N] int64 the number of steps of each window.
        first: [N] int64 the first step of each window.
    """

    first: np.ndarray

    @cached_property
    def starts(self) -> np.ndarray:  # [N + 1]
        return np.append(self.first, len(self.values))

    def array(self) -> np.ndarray:  # [N, window, channels]
        """A copy of all windows. They must have the same length."""
        size = int(self.lengths[0]) if len(self) else 0
        return self.values[self.first[:, None] + np.arange(size)]


@dataclass(frozen=True)
class TimeSplit:
    """Where the windows of one series are, and in which split.

    A window has `window` steps of history and `horizon` steps to forecast. The steps to forecast of all windows of a
    split are within its part of the series: first training, then validation, then test.

    Args:
        steps: Number of steps of the series.
        window: Steps of history.
        horizon: Steps to forecast.
        validation: Share of the steps before the test part that is for validation.
        test: Share of the steps that is for testing.

    Example:
        >>> plan = TimeSplit(100, window=10, horizon=5, validation=0.25, test=0.2)
        >>> plan.ends
        {'train': 60, 'validation': 80, 'test': 100}
        >>> plan.origins("test")[[0, -1]]
        array([79, 94])
    """

    steps: int
    window: int
    horizon: int
    validation: float
    test: float

    @property
    def ends(self) -> dict[Split, int]:
        """The step after the last one of each split."""
        held = max(round(self.test * self.steps), self.horizon) if self.test else 0
        known = self.steps - held
        return {"train": known - self._validation(known), "validation": known, "test": self.steps}

    def _validation(self, known: int) -> int:
        return max(round(self.validation * known), self.horizon) if self.validation else 0

    def origins(self, split: Split) -> np.ndarray:
        """The last step of the history of each window of a split, in time order."""
        starts = {"train": 0, "validation": self.ends["train"], "test": self.ends["validation"]}
        first = max(starts[split], self.window) - 1
        return np.arange(first, self.ends[split] - self.horizon)

    def check(self, name: str) -> None:
        """Raise an error if the training part is shorter than one window."""
        needed = self.window + self.horizon
        if self.ends["train"] < needed:
            rule = f"have at least window + horizon = {self.window} + {self.horizon} = {needed} steps for training"
            remedy = "Choose a smaller window or horizon, or hold out less (validation, test_share)."
            checks.fail(name, rule, max(self.ends["train"], 0), remedy)


def thinned(index: np.ndarray, most: int) -> np.ndarray:
    """At most `most` entries, evenly spaced.

    Example:
        >>> thinned(np.arange(10), 4)
        array([0, 3, 6, 9])
    """
    return index[:: -(-len(index) // most)] if len(index) else index
