"""What a run gave in the end: `summary.json`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autapse.records import Record


@dataclass(frozen=True, kw_only=True, eq=False)  # equal as mappings are
class Summary(Record, Mapping[str, Any]):
    """The scores and the course of a run. Its fields can be read by key too, as in `summary["test"]`.

    Scores are in the task's metric, and smaller is better. A score that is not finite is None.
    """

    cell: str
    """The network, with its options."""
    parameters: int
    """Number of trainable parameters."""
    metric: str
    """What the scores are: error rate, mean squared error, perplexity, …"""
    test: float | None
    """Test score of the best weights; None without test data."""
    best_test: float | None = None
    """Best test score at any validation, if `record_test` asked for it. Nothing is chosen by it."""
    validation: float | None
    """Best validation score; None without validation data."""
    best_step: int
    """The step of the best weights."""
    baseline: float | None
    """Test score of the task's trivial prediction; None without test data."""
    floor: float | None
    """Best possible test score; None if it is not known."""
    solved_step: int | None
    """Step of the first validation that counts as solved; None if there is none."""
    steps: int
    """Steps that were trained."""
    epochs: float
    """The same in passes over the training data."""
    stopped_by: str
    """What ended the run: steps, time, early stop, solved, diverged, or closed form, if there was nothing to train."""
    seconds: float
    """Training time, over all sessions."""
    rescues: int
    """Gradients that were not finite."""
    unsolved: int
    """Training sequences that a solver did not solve; they gave no gradient."""
    seed: int
    """Seed of the run."""
    processes: int
    """Processes that trained together."""
    balanced_accuracy: float | None = None
    """For classes: mean of the recalls of all classes in the test data."""
    macro_f1: float | None = None
    """For classes: mean of their F1 scores."""
    classes: list[dict[str, Any]] | None = None
    """For each class: its name, its count in the test data, precision, recall and F1."""
    confusion: list[list[int]] | None = None
    """For classes: how often class `row` of the test data was predicted as class `column`."""
    spans: list[dict[str, Any]] | None = None
    """For classes that mark spans (B-PER, I-PER, O): the scores of each kind of span; the last row is for all spans."""
    root_error: float | None = None
    """For trees: error rate at their roots."""
    node_error: float | None = None
    """For trees: error rate over all nodes that have targets."""
    r2: float | None = None
    """For values: share of their variance that is explained, the mean over all values."""
    mean_absolute_error: float | None = None
    """For values: mean absolute error, in the unit of the targets."""
    targets: list[dict[str, Any]] | None = None
    """For several values per prediction: the name, R² and mean absolute error of each, in its own unit."""
    wrong_sequences: float | None = None
    """For translations: share of the sequences with a mistake."""
    symbol_error_rate: float | None = None
    """For translations: symbols to change, to add or to remove, per symbol of the targets."""

    nats_per_sequence: float | None = None
    """For sequences that are generated: negative log-likelihood of a whole test sequence, on average."""
    free_running_error: float | None = None
    """For values that are generated: mean squared error of the means with which the model continues the beginnings of
    the test sequences, in units of the variance."""
    length_distance: float | None = None
    """For sequences whose true lengths are known: total variation distance between their distribution and that of the
    lengths of generated sequences, from 0 to 1."""

    @property
    def trivial_balanced_accuracy(self) -> float | None:
        """Balanced accuracy of a predictor that always says the same class; None if there are no classes."""
        present = sum(row["count"] > 0 for row in self.classes or ())
        return 1 / present if present else None

    @property
    def trivial(self) -> bool:
        """Whether the test score is not better than the trivial predictor's."""
        return self.baseline is not None and (self.test is None or self.test >= self.baseline)

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in dataclasses.fields(self))

    def __len__(self) -> int:
        return len(dataclasses.fields(self))
