"""SequenceLabeler: a class for every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from autapse import checks
from autapse.models.base import softmax
from autapse.sklearn.arrays import read_sequences
from autapse.sklearn.classifier import all_classes
from autapse.sklearn.series import SeriesEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceLabeler(SeriesEstimator):
    """Label every step of time series with a recurrent network.

    X is an array [n, channels, time], or [n, time] for one channel; or a list of arrays [channels, time], if lengths
    differ; or a list of data frames with a row per step and a column per channel, which is matched by name. Arrays may
    be padded with NaN at the end. y has one class per step: an array [n, time], or a list of arrays.
    After `fit`, the model is in `model_`, the classes in `classes_`, the training loss at every tenth step in
    `loss_curve_`, and the number of updates in `n_iter_`.

    Args:
        class_weight: Weight of each class in the loss: None for 1, or "balanced" for the inverse of its frequency.

    >>> X = np.random.default_rng(0).normal(size=(40, 30))
    >>> y = np.where(X > 0, "high", "low")
    >>> model = SequenceLabeler(preset="none", hidden_size=8, steps=100, random_state=0).fit(X, y)
    >>> model.predict(X).shape, model.score(X, y) > 0.9
    ((40, 30), True)
    """

    class_weight: Literal["balanced"] | None = None

    kept: ClassVar[tuple[str, ...]] = (*SeriesEstimator.kept, "classes_")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new model. Nothing is written to disk.

        Args:
            X: the time series.
            y: the class of each step, [n, time] or a list of arrays. Entries after the end of a series are ignored.
            sample_weight: [n] the weight of each series in the loss.

        Returns:
            The estimator itself.
        """
        sequences = read_sequences(self, X, reset=True)
        labels = self._labels(y, sequences)
        self.classes_ = np.unique(np.concatenate(labels))
        targets = [np.searchsorted(self.classes_, one) for one in labels]
        weights = self._weights(sample_weight, len(sequences))
        return self._fit(sequences, targets, tuple(map(str, self.classes_)), weights)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train further: one pass over these series. The first call also chooses the settings and the scaling.

        Args:
            X: the time series.
            y: the class of each step.
            classes: all classes; needed in the first call only.
            sample_weight: [n] the weight of each series in the loss.

        Returns:
            The estimator itself.
        """
        sequences = read_sequences(self, X, reset=not self.__sklearn_is_fitted__())
        labels = self._labels(y, sequences)
        self.classes_ = known = all_classes(self, np.unique(np.concatenate(labels)), classes)
        weights = self._weights(sample_weight, len(sequences))
        targets = [np.searchsorted(known, one) for one in labels]
        return self._fit_more(sequences, targets, tuple(map(str, known)), weights)

    def predict(self, X: Any) -> Any:
        """The most probable class of each step.

        Args:
            X: the time series.

        Returns:
            [n, time]; if lengths differ, a list of arrays. Entries of `classes_`.
        """
        probabilities = self._probabilities(X)
        return _together([self.classes_[one.argmax(-1)] for one in probabilities])

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class at each step.

        Args:
            X: the time series.

        Returns:
            [n, time, classes]; if lengths differ, a list of arrays.
        """
        return _together(self._probabilities(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy over all steps.

        Args:
            X: the time series.
            y: the class of each step.
            sample_weight: [n] the weight of each series.

        Returns:
            The share of the steps whose class is predicted.
        """
        sequences = self._read(X)
        labels = self._labels(y, sequences)
        right = [guess == label for guess, label in zip(self.predict(X), labels, strict=True)]
        weights = self._weights(sample_weight, len(labels))
        each = None if weights is None else np.repeat(weights, [len(one) for one in labels])
        return float(np.average(np.concatenate(right), weights=each))

    def _probabilities(self, X: Any) -> list[np.ndarray]:
        return [softmax(one) for one in self.model_.scores(self._read(X))]

    def _given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        model, training = super()._given()
        if self.class_weight not in (None, "balanced"):
            checks.fail("class_weight", 'be None or "balanced"', self.class_weight)
        return model, training | ({"class_weights": "balanced"} if self.class_weight else {})

    def _labels(self, y: Any, sequences: list[np.ndarray]) -> list[np.ndarray]:
        """The classes of the steps of each sequence, without those of its padding."""
        self._require(y)
        if len(y) != len(sequences):
            checks.fail("y", f"have one row per series, {len(sequences)}", len(y), kind=checks.ShapeError)
        rows = [np.asarray(row) for row in y]
        for n, (row, sequence) in enumerate(zip(rows, sequences, strict=True)):
            if row.ndim != 1 or len(row) < len(sequence):
                rule = f"have one class per step of X[{n}], {len(sequence)}"
                checks.fail(f"y[{n}]", rule, row.shape, kind=checks.ShapeError)
        labels = [row[: len(sequence)] for row, sequence in zip(rows, sequences, strict=True)]
        check_classification_targets(np.concatenate(labels))
        return labels


def _together(rows: list[np.ndarray]) -> Any:
    """One array if all rows have the same length, otherwise the list."""
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else rows
