"""The base classes of tasks: data with three splits, a metric, and scores to compare with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.data.ragged import dense as dense  # noqa: PLC0414 (public here too)

Kind = Literal[
    "regression",
    "regression per step",
    "classification",
    "tagging",
    "language",
    "question answering",
    "forecasting",
    "generation",
    "translation",
    "segmentation",
    "image classification",
    "trees",
]
Metric = Literal[
    "mean squared error",
    "wrong answers",
    "error rate",
    "cross-entropy",
    "perplexity",
    "bits per character",
    "nats per step",
    "wrong sequences",
    "symbol error rate",
]
Split = Literal["train", "validation", "test"]
Intervals = Literal["quantile", "gaussian", "none"]
Preset = Literal["auto", "recipe", "none"]
Transform = Callable[[np.ndarray, np.random.Generator], np.ndarray]

SPLITS: tuple[Split, ...] = get_args(Split)
IGNORE = -100
"""The target of steps after the end of a sequence; torch's cross-entropy ignores it by default."""


@dataclass(frozen=True, eq=False)
class Data:
    """N sequences with their targets, padded to T steps or ragged.

    Args:
        inputs: Sequences, [N, T, D], zero after the end of each sequence; or ragged, with steps of shape [D]. Columns
            of words have integers. Generation: what the targets depend on; a vector is a sequence of one step, and
            nothing has no columns. Images: their pixels row by row; the last column is the width of the image. Trees:
            their nodes, children before parents, [2] int64 each: the word, 0 for none, and how many rows later the
            parent is, 0 for the root.
        targets: Regression: [N, K] float32. Regression per step: ragged, with steps of shape [K] float32.
            Classification and question answering: [N] int64. Tagging, language, segmentation and trees: one class per
            step, [N, T] int64 with IGNORE after the end, or ragged. Forecasting: [N, horizon + 1, K] float32; the last
            row is the size of a typical error of the series, by which the loss is divided. Generation and translation:
            the sequences to write, ragged: symbols, int64, with IGNORE for one that is missing; or values, steps of
            shape [K] float32, with NaN for one that is missing. Their lengths need not be those of the inputs.
        lengths: [N] int64; None if every sequence has T steps, or if the inputs are ragged.
        span: Read the sequences in pieces of this many steps; None: read them whole.
        carry: Pass the state from one piece to the next; False: every piece starts from zero.
        transform: Function of the stored inputs of a batch and a random generator that returns the inputs of the
            network; the generator is new at every training step.
        weights: [N] the weight of each sequence in the training loss, 1 on average; None for 1.

    Example:
        >>> data = Data(np.zeros((3, 5, 2), dtype=np.float32), np.array([0, 1, 0]))
        >>> len(data)
        3
    """

    inputs: np.ndarray | Ragged
    targets: np.ndarray | Ragged
    lengths: np.ndarray | None = None
    span: int | None = None
    carry: bool = True
    transform: Transform | None = None
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, kw_only=True)
class ForecastShape:
    """What a model must know to forecast.

    Args:
        horizon: Steps to forecast.
        window: Steps of history that a forecast is made from.
        targets: Names of the channels to forecast. They come first in the input.
        others: Names of channels whose history is read but that are not forecast. They come next.
        known: Names of channels whose future is known. They come last, twice: at each step, and `horizon` steps ahead.
        recursive: Forecast one step at a time, and read it as history for the next one; otherwise all steps at once.
        intervals: What the prediction intervals are: quantiles, a Gaussian, or none.
        levels: The share of values that each interval should contain.
        season: Steps after which a series repeats; 1 for none.

    Example:
        >>> shape = ForecastShape(horizon=12, window=48, targets=("sales",), known=("holiday",))
        >>> shape.input_size
        3
    """

    horizon: int
    window: int
    targets: tuple[str, ...]
    others: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    recursive: bool = False
    intervals: Intervals = "quantile"
    levels: tuple[float, ...] = (0.8, 0.95)
    season: int = 1

    @property
    def input_size(self) -> int:
        """Features per step of the model's input."""
        return len(self.targets) + len(self.others) + 2 * len(self.known)

    @property
    def columns(self) -> tuple[str, ...]:
        """All channels that the user gives."""
        return (*self.targets, *self.others, *self.known)


@dataclass(frozen=True, kw_only=True)
class WrittenShape:
    """What a model must know about the sequences that it writes. With symbols, their number is the output size.

    Args:
        depends: What a sequence depends on: nothing, a vector, a sequence of the same length, or a source, which may
            have another length.
        longest: Length of the longest sequence that the model writes.
        one_length: Whether all sequences have this length, so that the model need not model lengths.
        values: Number of columns with values; 0 for symbols.
        binary: Number of columns that are 0 or 1. They come last.
        mean: Mean of each column with values.
        scale: Standard deviation of each column with values.
        columns: Names of the columns; empty if they have no names.
        gaps: Whether elements may be missing.
        separator: Text between two symbols, when they are printed; empty for characters.
        source_separator: The same for the symbols of a source.

    Example:
        >>> WrittenShape(longest=40).depends
        'nothing'
    """

    depends: Literal["nothing", "vector", "sequence", "source"] = "nothing"
    longest: int
    one_length: bool = False
    values: int = 0
    binary: int = 0
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()
    gaps: bool = False
    separator: str = " "
    source_separator: str = " "

    @property
    def symbols(self) -> bool:
        """Whether the elements are symbols, rather than values."""
        return not self.values + self.binary


@dataclass(frozen=True, kw_only=True)
class TreeShape:
    """What a model must know about trees.

    Args:
        arity: The largest number of children of a node.
        targets: Which nodes have targets: nodes (all or some), or only the root.

    Example:
        >>> TreeShape(arity=2).targets
        'nodes'
    """

    arity: int
    targets: Literal["nodes", "root"] = "nodes"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a model must know about the data of a task. It is saved with the model.

    Args:
        kind: What a model must do: regression, classification, tagging, …
        input_size: Features per step, including word columns; for images, of a pixel, without the width.
        channels: Names of the input channels; empty if they have no names.
        time_step: The time step that the data was resampled to (for sound: of its samples); 0 if it was not.
        output_size: Number of values to predict or to write, or number of classes or symbols.
        vocabularies: The words of each word column, in the order of their ids. Word columns come first.
        classes: Names of the classes; empty if they have no names.
        mean: The model subtracts this from the other columns, one value per column; empty for 0.
        scale: The model then divides by this; empty for 1.
        target_mean: Regression: mean of the targets, one per value; empty for 0.
        target_scale: Regression: standard deviation of the targets; empty for 1.
        length: Number of steps of a typical sequence; 0 if it is not known.
        forecast: Forecasting: the horizon and what else the model must know; otherwise None.
        written: Generation and translation: the sequences that the model writes; otherwise None.
        tree: Trees: the number of children of a node, and which nodes have targets; otherwise None.
        center: The model first replaces x by arcsinh((x − center) / spread), one value per channel; empty for no.
        spread: See center; 0 for channels that stay as they are.
        level_mean: Not empty: each series is standardised by its own mean and deviation. The log of the deviation is
            one more input per channel, standardised with level_mean and level_scale.
        level_scale: See level_mean.
        difference_scale: Not empty: the change since the step before, divided by this, is one more input per channel.
        missing: What the model reads where a value is NaN: mask, forward, mean; with error, NaN is an error.

    Example:
        >>> signature = Signature(kind="classification", input_size=3, output_size=2, classes=("rest", "walk"))
        >>> signature.classes[1]
        'walk'
    """

    kind: Kind
    input_size: int
    output_size: int
    channels: tuple[str, ...] = ()
    time_step: float = 0.0
    vocabularies: tuple[tuple[str, ...], ...] = ()
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    target_mean: tuple[float, ...] = ()
    target_scale: tuple[float, ...] = ()
    length: int = 0
    forecast: ForecastShape | None = None
    written: WrittenShape | None = None
    tree: TreeShape | None = None
    center: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    level_mean: tuple[float, ...] = ()
    level_scale: tuple[float, ...] = ()
    difference_scale: tuple[float, ...] = ()
    missing: Literal["mask", "forward", "mean", "error"] = "error"


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """The base class of all tasks. The options of a task are its fields.

    To add a task, write one file with a subclass and add the class to `autapse/tasks/__init__.py`.
    """

    name: ClassVar[str]
    """Name on the command line."""
    summary: ClassVar[str]
    """What the network must do, in one line."""
    kind: ClassVar[Kind]
    metric: ClassVar[Metric]
    baseline_text: ClassVar[str]
    """What the trivial predictor does."""
    preset: ClassVar[Preset] = "none"
    """Where `autapse run` takes the settings from, if no option describes the network."""
    solved: ClassVar[float | None] = None
    """A validation score below this counts as solved; None if the task has no such limit."""
    older: ClassVar[dict[str, Any]] = {}
    """Options that runs of older versions did not save, with the values that those runs used."""

    embedding_size: ClassVar[tuple[int, ...]] = ()
    """Default size of the word vectors, one per vocabulary; the last one also holds for further vocabularies."""

    @classmethod
    def about(cls) -> str:
        """One line with the kind, the metric and the trivial predictor."""
        return f"{cls.kind}, {cls.metric}; trivial predictor: {cls.baseline_text}"

    @abstractmethod
    def signature(self) -> Signature:
        """What the model must know about the data: sizes, names of the classes, vocabularies, standardisation."""

    @abstractmethod
    def split(self, split: Split, seed: int) -> Data:
        """The data of one split: train, validation or test. The same options, split and seed give the same bits."""

    @abstractmethod
    def baseline(self, data: Data) -> float:
        """The score of the trivial predictor on `data`, in the unit of `metric`."""

    @abstractmethod
    def floor(self, data: Data) -> float | None:
        """The score of the best possible predictor on `data`; None if it is not known."""


@dataclass(frozen=True, kw_only=True)
class Generated(Task):
    """A task with generated sequences.

    Args:
        train_size: Number of training sequences.
        validation_size: Number of validation sequences, which select the best weights.
        test_size: Number of test sequences, which are scored once, at the end.
    """

    train_size: int = 10_000
    validation_size: int = 1_000
    test_size: int = 2_000

    def __post_init__(self) -> None:
        for split in SPLITS:
            checks.integer(f"{split}_size", self.size(split), minimum=1)

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Features per step."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Regression: number of values to predict. Classification and tagging: number of classes."""

    def signature(self) -> Signature:
        return Signature(kind=self.kind, input_size=self.input_size, output_size=self.output_size)

    def size(self, split: Split) -> int:
        """Number of sequences in a split."""
        return {"train": self.train_size, "validation": self.validation_size, "test": self.test_size}[split]


def generator(split: Split, seed: int) -> np.random.Generator:
    """The random generator of one split.

    Args:
        split: "train", "validation" or "test".
        seed: Seed of the run. Every split and every seed has independent random numbers.

    Returns:
        A numpy generator.

    Example:
        >>> one, same = generator("train", 0), generator("train", 0)
        >>> (one.random(2) == same.random(2)).tolist()
        [True, True]
    """
    checks.one_of("split", split, SPLITS)
    return np.random.default_rng([checks.seed("seed", seed), SPLITS.index(split)])


def majority_error(targets: np.ndarray | Ragged) -> float:
    """The error rate of a predictor that always predicts the most frequent class.

    Args:
        targets: Classes, with IGNORE for entries to skip.

    Returns:
        The error rate, from 0 to 1.

    Example:
        >>> majority_error(np.array([0, 1, 1, 1]))
        0.25
    """
    flat = dense(targets)
    counts = np.bincount(flat[flat != IGNORE])
    return float(1 - counts.max() / counts.sum())
