"""Tasks whose data lie in files: what is held out of the training data, and by whom it was recorded."""

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
    """One part of a data set, as upstream divides it."""

    inputs: np.ndarray | Ragged
    targets: np.ndarray | Ragged
    groups: np.ndarray | None = None
    """[N]: who recorded each; a validation set must not know the voices of the training set."""

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, index: np.ndarray) -> Examples:
        """Some of the examples, in the order asked for."""
        return Examples(_take(self.inputs, index), _take(self.targets, index))

    def __add__(self, other: Examples) -> Examples:
        return Examples(_join(self.inputs, other.inputs), _join(self.targets, other.targets))


@dataclass(frozen=True, eq=False)
class Parts:
    """A data set as upstream divides it; most have no validation part of their own."""

    train: Examples
    test: Examples
    validation: Examples | None = None


@dataclass(frozen=True, kw_only=True)
class Stored(Task):
    """A task whose data lie in files."""

    validation: float = 0.1
    """Share of the training data that is held out to choose by, whole subjects or speakers where they are known (the
    data set's own validation part where it has one); 0 trains on everything and keeps the last weights."""

    data_sets: ClassVar[tuple[str, ...]] = ()
    """What it needs, as `autapse data list` names it; any one will do. Empty where an option says what to read."""

    def __post_init__(self) -> None:
        checks.number("validation", self.validation, low=0.0, high=0.9)

    @abstractmethod
    def parts(self) -> Parts:
        """The whole data set, read once and kept."""

    def transform(self, split: Split, seed: int) -> Transform | None:
        """What makes the inputs of a batch from the stored ones; None where they are used as they are."""
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
    """Which examples are for validation: whole groups where there are any, else each class in proportion."""
    rng, size = np.random.default_rng([seed, 3]), len(examples)
    held = np.zeros(size, dtype=bool)
    if not share:
        return held
    if examples.groups is not None:
        groups, counts = np.unique(examples.groups, return_counts=True)
        order = rng.permutation(len(groups))
        # As many groups as come nearest to the share, but at least one, and one left to train on.
        enough = int(np.argmin(np.abs(np.cumsum(counts[order]) - share * size))) + 1
        chosen = groups[order[: min(enough, len(groups) - 1)]]
        return np.isin(examples.groups, chosen)
    if isinstance(examples.targets, np.ndarray) and examples.targets.dtype.kind == "i" and examples.targets.ndim == 1:
        for label in np.unique(examples.targets):
            members = rng.permutation(np.flatnonzero(examples.targets == label))
            held[members[: min(round(share * len(members)), len(members) - 1)]] = True  # one is left to train on
    if not held.any():  # numbers to predict, or classes too small to share
        held[rng.permutation(size)[: min(max(1, round(share * size)), size - 1)]] = True
    return held


def standardisation(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:  # [..., D]
    """Mean and scale of each channel; one that never changes is left at its size."""
    flat = values.reshape(-1, values.shape[-1])
    mean, scale = flat.mean(axis=0, dtype=np.float64), flat.std(axis=0, dtype=np.float64)
    return tuple(mean.tolist()), tuple(np.where(scale > 0, scale, 1.0).tolist())


def _take(values: np.ndarray | Ragged, index: np.ndarray) -> np.ndarray | Ragged:
    return values.take(index) if isinstance(values, Ragged) else values[index]


def _join(first: np.ndarray | Ragged, second: np.ndarray | Ragged) -> np.ndarray | Ragged:
    if isinstance(first, Ragged) and isinstance(second, Ragged):
        return Ragged(np.concatenate([first.values, second.values]), np.concatenate([first.lengths, second.lengths]))
    return np.concatenate([dense(first), dense(second)])
