"""What a task is: data with three splits, a metric, and the scores between which a network should land."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged

Kind = Literal["regression", "classification", "tagging", "language", "question answering"]
Metric = Literal["mean squared error", "error rate", "cross-entropy", "perplexity"]
Split = Literal["train", "validation", "test"]
Transform = Callable[[np.ndarray, np.random.Generator], np.ndarray]

SPLITS: tuple[Split, ...] = get_args(Split)
IGNORE = -100
"""The target of a position past its sequence's end: torch's cross-entropy skips it by default."""


@dataclass(frozen=True, eq=False)
class Data:
    """N sequences and what is to be said about them: padded to T steps, or ragged."""

    inputs: np.ndarray | Ragged
    """[N, T, D], zero past each sequence's end, or ragged [D] steps. Numbers, or integers where columns are words."""
    targets: np.ndarray | Ragged
    """Regression: [N, K] float32. Classification and question answering: [N] int64. Tagging and language: one class for
    every step, [N, T] int64 with IGNORE past the end, or ragged."""
    lengths: np.ndarray | None = None
    """[N] int64; None where every sequence has T steps, and where the inputs are ragged, which know their lengths."""
    span: int | None = None
    """Read the sequences in pieces of this many steps."""
    carry: bool = True
    """Carry the state from one piece to the next; otherwise every piece starts from zero."""
    transform: Transform | None = None
    """What makes the inputs of a batch from the stored ones, with random numbers that are new at every step."""

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a model has to know of a task's data, and keeps when the data are gone."""

    kind: Kind
    input_size: int
    """Numbers of one step; where the leading columns are words, with them."""
    output_size: int
    """Regression: numbers to predict. All other kinds: classes."""
    vocabularies: tuple[tuple[str, ...], ...] = ()
    """The words of the leading columns of the input, one vocabulary per column, in the order of their numbers."""
    classes: tuple[str, ...] = ()
    """Names of the classes; empty where they are just numbers."""
    mean: tuple[float, ...] = ()
    """What the model subtracts from the input's numbers, one per column; empty for nothing."""
    scale: tuple[float, ...] = ()
    """What it then divides by."""
    target_mean: tuple[float, ...] = ()
    """Of a regression: what the model's outputs are centred on, one per number; empty for 0."""
    target_scale: tuple[float, ...] = ()
    """And the scale that they have; empty for 1."""


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """A task and its options: one field per option, its meaning under it.

    To add a task, write one file with a subclass and name the class in `autapse/tasks/__init__.py`.
    """

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

    embedding_size: ClassVar[tuple[int, ...]] = ()
    """Numbers for a word of each vocabulary, unless the user asks for others; the last holds for further ones."""

    @classmethod
    def about(cls) -> str:
        """What is said of the task beside its summary."""
        return f"{cls.kind}, {cls.metric}; trivial predictor: {cls.baseline_text}"

    @abstractmethod
    def signature(self) -> Signature:
        """Sizes and names, for the model."""

    @abstractmethod
    def split(self, split: Split, seed: int) -> Data:
        """The data of one split: the same bits for the same options, split and seed."""

    @abstractmethod
    def baseline(self, data: Data) -> float:
        """The trivial predictor's score on `data`, in `metric`."""

    @abstractmethod
    def floor(self, data: Data) -> float | None:
        """The score on `data` of the best predictor there can be, or None where nobody knows it."""


@dataclass(frozen=True, kw_only=True)
class Generated(Task):
    """A task whose sequences are made on the spot, as many as one likes."""

    train_size: int = 10_000
    """Sequences to train on."""
    validation_size: int = 1_000
    """Sequences that choose the best checkpoint."""
    test_size: int = 2_000
    """Sequences scored once, at the end."""

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

    def signature(self) -> Signature:
        return Signature(kind=self.kind, input_size=self.input_size, output_size=self.output_size)

    def size(self, split: Split) -> int:
        """How many sequences a split has."""
        return {"train": self.train_size, "validation": self.validation_size, "test": self.test_size}[split]


def generator(split: Split, seed: int) -> np.random.Generator:
    """Random numbers of one split, independent of the other splits' and of other seeds'."""
    checks.one_of("split", split, SPLITS)
    return np.random.default_rng([checks.seed("seed", seed), SPLITS.index(split)])


def dense(values: np.ndarray | Ragged) -> np.ndarray:
    """An array as it is; of ragged sequences all steps in one row."""
    return values.values if isinstance(values, Ragged) else values


def majority_error(targets: np.ndarray | Ragged) -> float:
    """The error rate of always predicting the most frequent class of `targets`."""
    flat = dense(targets)
    counts = np.bincount(flat[flat != IGNORE])
    return float(1 - counts.max() / counts.sum())
