"""Tasks with data in files, and the validation sets that are held out of the training data."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks.base import SPLITS, Data, Split, Task, Transform, dense, majority_error


@dataclass(frozen=True, eq=False)
class Examples:
    """N examples of one part of a data set.

    Args:
        inputs: Sequences, [N, T, D] or ragged.
        targets: Their targets, as in `Data`.
        groups: [N] the subject or speaker of each example. Validation holds out whole groups, so that the network has
            not been trained on these people.
        weights: [N] the weight of each example in the loss, at least 0; None for 1.
    """

    inputs: np.ndarray | Ragged
    targets: np.ndarray | Ragged
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, index: np.ndarray) -> Examples:
        """The examples at `index`, in this order. The groups are dropped."""
        weights = None if self.weights is None else self.weights[index]
        return Examples(_take(self.inputs, index), _take(self.targets, index), weights=weights)

    def data(self) -> Data:
        """What a training reads. The weights are 1 on average."""
        weights = self.weights / self.weights.mean() if self.weights is not None and len(self) else None
        return Data(self.inputs, self.targets, weights=weights)

    def __add__(self, other: Examples) -> Examples:
        return Examples(_join(self.inputs, other.inputs), _join(self.targets, other.targets))


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a data set as its authors divide it; most have no validation part."""

    train: Examples
    test: Examples
    validation: Examples | None = None


@dataclass(frozen=True, kw_only=True)
class Stored(Task):
    """A task with data in files.

    Args:
        validation: Share of the training data that is held out for validation, by subject or speaker if they are known;
            0 trains on all data and keeps the last weights. If the data set has a validation set, any value above 0
            uses that one.
    """

    validation: float = 0.1

    data_sets: ClassVar[tuple[str, ...]] = ()
    """The data sets of the task in `autapse data list`; any one is enough. Empty if an option says what to read."""

    def __post_init__(self) -> None:
        checks.number("validation", self.validation, low=0.0, high=0.9)

    @abstractmethod
    def parts(self) -> Parts:
        """The whole data set. It is read once and kept in memory."""

    def transform(self, split: Split, seed: int) -> Transform | None:
        """The function that computes the inputs of a batch from the stored ones; None if they are used unchanged."""
        return None

    def split(self, split: Split, seed: int) -> Data:
        checks.one_of("split", split, SPLITS)
        chosen = self._examples(split, checks.seed("seed", seed))
        return Data(chosen.inputs, chosen.targets, transform=self.transform(split, seed))

    def _examples(self, split: Split, seed: int) -> Examples:
        parts = self.parts()
        if split == "test":
            return parts.test
        if parts.validation is not None:
            if split == "validation":
                return parts.validation if self.validation else parts.validation.take(np.arange(0))
            return parts.train if self.validation else parts.train + parts.validation
        held = held_out(parts.train, self.validation, seed)
        return parts.train.take(np.flatnonzero(held if split == "validation" else ~held))

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> None:
        return None


def held_out(examples: Examples, share: float, seed: int) -> np.ndarray:  # [N] bool
    """Which examples are held out: whole groups if there are any, otherwise all classes in proportion."""
    rng, size = np.random.default_rng([seed, 3]), len(examples)
    held = np.zeros(size, dtype=bool)
    if not share:
        return held
    if examples.groups is not None:
        groups, counts = np.unique(examples.groups, return_counts=True)
        order = rng.permutation(len(groups))
        # The number of groups that comes closest to the share, but at least one, and not all of them.
        enough = int(np.argmin(np.abs(np.cumsum(counts[order]) - share * size))) + 1
        chosen = groups[order[: min(enough, len(groups) - 1)]]
        return np.isin(examples.groups, chosen)
    if isinstance(examples.targets, np.ndarray) and examples.targets.dtype.kind == "i" and examples.targets.ndim == 1:
        for label in np.unique(examples.targets):
            members = rng.permutation(np.flatnonzero(examples.targets == label))
            held[members[: min(round(share * len(members)), len(members) - 1)]] = True  # keep one to train on
    if not held.any():  # values to predict, or classes with too few examples
        held[rng.permutation(size)[: min(max(1, round(share * size)), size - 1)]] = True
    return held


def standardisation(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:  # [..., D]
    """Mean and standard deviation of each channel. A constant channel has scale 1."""
    flat = values.reshape(-1, values.shape[-1])
    mean, scale = flat.mean(axis=0, dtype=np.float64), flat.std(axis=0, dtype=np.float64)
    return tuple(mean.tolist()), tuple(np.where(scale > 0, scale, 1.0).tolist())


def _take(values: np.ndarray | Ragged, index: np.ndarray) -> np.ndarray | Ragged:
    return values.take(index) if isinstance(values, Ragged) else values[index]


def _join(first: np.ndarray | Ragged, second: np.ndarray | Ragged) -> np.ndarray | Ragged:
    if isinstance(first, Ragged) and isinstance(second, Ragged):
        return Ragged(np.concatenate([first.values, second.values]), np.concatenate([first.lengths, second.lengths]))
    return np.concatenate([dense(first), dense(second)])
