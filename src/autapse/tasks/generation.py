"""The base of tasks whose targets are sequences to generate, and what their trivial predictors know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse.data.ragged import Ragged
from autapse.tasks.base import IGNORE, Data, Kind, Metric, Task


@dataclass(frozen=True, kw_only=True)
class Generation(Task):
    """A task whose targets are sequences to generate. Their score is the negative log-likelihood per step, in nats."""

    kind: ClassVar[Kind] = "generation"
    metric: ClassVar[Metric] = "nats per step"
    baseline_text: ClassVar[str] = "all elements independent, by the frequencies of the data"

    def steps_known(self) -> int:
        """For values: after this many steps of a test sequence, the model continues by itself, and its error is scored.

        0 for no such score.
        """
        return 0

    def length_chances(self) -> np.ndarray | None:  # [longest]
        """The true probability of each length 1, 2, …; None if it is not known."""
        return None

    def floor(self, data: Data) -> float | None:
        return None

    def baseline(self, data: Data) -> float:
        assert isinstance(data.targets, Ragged)
        written = self.signature().written
        assert written is not None
        known = _symbols(data.targets) if written.symbols else _values(data.targets, written.values)
        return known if written.one_length or written.depends == "sequence" else known + _lengths(data.targets)


def nothing(count: int) -> np.ndarray:  # [N, 1, 0]
    """The inputs of sequences that depend on nothing."""
    return np.zeros((count, 1, 0), dtype=np.float32)


def length_frequencies(lengths: np.ndarray, longest: int) -> np.ndarray:  # [N] -> [longest]
    """The share of the sequences with each length 1 … longest."""
    return np.bincount(lengths, minlength=longest + 1)[1:] / len(lengths)


def with_gaps(values: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:  # [steps] or [steps, D]
    """The elements of all sequences, with a random share of them missing."""
    if not share:
        return values
    gone = rng.random(len(values)) < share
    made = values.copy()
    made[gone] = IGNORE if values.dtype.kind == "i" else np.nan
    return made


def _symbols(targets: Ragged) -> float:
    """Nats per step of symbols, by their frequency."""
    known = targets.values[targets.values != IGNORE]
    return len(known) * _entropy(np.unique(known, return_counts=True)[1]) / len(targets.values)


def _values(targets: Ragged, values: int) -> float:
    """Nats per step of values by one Gaussian per column, and of binary columns by their frequency."""
    total = 0.0
    for column, numbers in enumerate(targets.values.T):
        known = numbers[~np.isnan(numbers)].astype(np.float64)
        share = len(known) / len(numbers)
        if column < values:
            total += share * 0.5 * math.log(2 * math.pi * math.e * max(known.var(), 1e-12))
        else:
            total += share * _entropy(np.unique(known, return_counts=True)[1])
    return total


def _lengths(targets: Ragged) -> float:
    """Nats per step of the lengths, by their frequency."""
    return _entropy(np.unique(targets.lengths, return_counts=True)[1]) * len(targets) / len(targets.values)


def _entropy(counts: np.ndarray) -> float:
    chances = counts / counts.sum()
    return float(-(chances * np.log(chances)).sum())
