"""What a task is: data with three splits, a metric, and the scores between which a network should land."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from autapse import checks

Kind = Literal["regression", "classification", "tagging"]
Metric = Literal["mean squared error", "error rate", "cross-entropy"]
Split = Literal["train", "validation", "test"]

SPLITS: tuple[Split, ...] = get_args(Split)
IGNORE = -100
"""The target of a position past its sequence's end: torch's cross-entropy skips it by default."""


@dataclass(frozen=True, eq=False)
class Data:
    """N sequences, padded to T steps, and what is to be said about them."""

    inputs: np.ndarray
    """[N, T, D] float32, zero past each sequence's end."""
    targets: np.ndarray
    """Regression: [N, K] float32. Classification: [N] int64. Tagging: [N, T] int64, IGNORE past the end."""
    lengths: np.ndarray | None = None
    """[N] int64; None where every sequence has T steps."""

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """A task and its options: one field per option, its meaning under it.

    To add a task, write one file with a subclass and name the class in `autapse/tasks/__init__.py`.
    """

    train_size: int = 10_000
    """Sequences to train on."""
    validation_size: int = 1_000
    """Sequences that choose the best checkpoint."""
    test_size: int = 2_000
    """Sequences scored once, at the end."""

    name: ClassVar[str]
    """What the command line calls it."""
    summary: ClassVar[str]
    """One line on what the network has to do."""
    kind: ClassVar[Kind]
    metric: ClassVar[Metric]
    baseline_text: ClassVar[str]
    """What the trivial predictor does."""
    solved: ClassVar[float | None] = None
    """A validation metric below this counts as solved; None where a task has no such notion."""

    def __post_init__(self) -> None:
        for split in SPLITS:
            checks.integer(f"{split}_size", self.size(split), minimum=1)

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Channels of one step of the input."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Regression: numbers to predict. Classification and tagging: classes."""

    @abstractmethod
    def split(self, split: Split, seed: int) -> Data:
        """The data of one split: the same bits for the same options, split and seed."""

    @abstractmethod
    def baseline(self, data: Data) -> float:
        """The trivial predictor's score on `data`, in `metric`."""

    @abstractmethod
    def floor(self, data: Data) -> float | None:
        """The score on `data` of the best predictor there can be, or None where nobody knows it."""

    def size(self, split: Split) -> int:
        """How many sequences a split has."""
        return {"train": self.train_size, "validation": self.validation_size, "test": self.test_size}[split]


def generator(split: Split, seed: int) -> np.random.Generator:
    """Random numbers of one split, independent of the other splits' and of other seeds'."""
    checks.one_of("split", split, SPLITS)
    return np.random.default_rng([checks.integer("seed", seed, minimum=0), SPLITS.index(split)])


def majority_error(targets: np.ndarray) -> float:
    """The error rate of always predicting the most frequent class of `targets`."""
    counts = np.bincount(targets[targets != IGNORE])
    return float(1 - counts.max() / counts.sum())
