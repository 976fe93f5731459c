"""RecurrentClassifier: one class for each sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from autapse import checks
from autapse.models.base import softmax
from autapse.sklearn.arrays import read_sequences
from autapse.sklearn.series import SeriesEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class RecurrentClassifier(ClassifierMixin, SeriesEstimator):  # type: ignore[misc]
    """Classify time series with a recurrent network.

    X is an array [n, channels, time], or [n, time] for one channel; or a list of arrays [channels, time], if lengths
    differ; or a list of data frames with a row per step and a column per channel, which is matched by name. Arrays may
    be padded with NaN at the end. After `fit`, the model is in `model_`, the classes in `classes_`,
    the training loss at every tenth step in `loss_curve_`, and the number of updates in `n_iter_`.

    Args:
        class_weight: Weight of each class in the loss: None for 1, "balanced" for the inverse of its frequency, or a
            dict.

    >>> X = np.random.default_rng(0).normal(size=(40, 2, 30))  # 40 series, 2 channels, 30 steps
    >>> y = np.where(X[:, 0].mean(1) > 0, "up", "down")
    >>> model = RecurrentClassifier(preset="none", readout="mean", hidden_size=8, steps=100, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape, model.score(X, y) > 0.9
    ((40, 2), True)
    """

    class_weight: Any = None

    kept: ClassVar[tuple[str, ...]] = (*SeriesEstimator.kept, "classes_")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new model. Nothing is written to disk.

        Args:
            X: the time series.
            y: [n] the class of each.
            sample_weight: [n] the weight of each in the loss.

        Returns:
            The estimator itself.
        """
        labels = self._labels(y)
        sequences = read_sequences(self, X, reset=True)
        check_consistent_length(sequences, labels)
        self.classes_, targets = np.unique(labels, return_inverse=True)
        weights = self._weights(sample_weight, len(sequences))
        return self._fit(sequences, targets, tuple(map(str, self.classes_)), self._with_classes(weights, labels))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train further: one pass over these series. The first call also chooses the settings and the scaling.

        Args:
            X: the time series.
            y: [n] the class of each.
            classes: all classes; needed in the first call only.
            sample_weight: [n] the weight of each in the loss.

        Returns:
            The estimator itself.
        """
        labels, first = self._labels(y), not self.__sklearn_is_fitted__()
        sequences = read_sequences(self, X, reset=first)
        check_consistent_length(sequences, labels)
        self.classes_ = known = all_classes(self, labels, classes)
        weights = self._with_classes(self._weights(sample_weight, len(sequences)), labels)
        return self._fit_more(sequences, np.searchsorted(known, labels), tuple(map(str, known)), weights)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each series.

        Args:
            X: the time series.

        Returns:
            [n], entries of `classes_`.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class.

        Args:
            X: the time series.

        Returns:
            [n, classes], in the order of `classes_`.
        """
        return softmax(np.stack(self.model_.scores(self._read(X))))

    def _labels(self, y: Any) -> np.ndarray:
        self._require(y)
        labels = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=self), warn=True)
        check_classification_targets(labels)
        return labels

    def _with_classes(self, weights: np.ndarray | None, labels: np.ndarray) -> np.ndarray | None:
        """The weights of the sequences times those of their classes."""
        if self.class_weight is None:
            return weights
        factors = compute_sample_weight(self.class_weight, labels)
        return factors if weights is None else weights * factors


def all_classes(estimator: Any, present: np.ndarray, classes: Any) -> np.ndarray:
    """All classes, for partial_fit: those of the first call, in which `classes` must be given."""
    if estimator.class_weight == "balanced":
        checks.fail("class_weight", "not be balanced in partial_fit, which sees a part of the data", "balanced")
    first = not estimator.__sklearn_is_fitted__()
    if first and classes is None:
        checks.fail("classes", "have all classes in the first call of partial_fit", None)
    known: np.ndarray = estimator.classes_ if classes is None else np.unique(classes)
    if not first and not np.array_equal(known, estimator.classes_):
        checks.fail("classes", f"be the same in every call, {estimator.classes_.tolist()}", known.tolist())
    unknown = np.setdiff1d(present, known)
    if len(unknown):
        checks.fail("y", f"have no classes but {known.tolist()}", unknown.tolist())
    return known
