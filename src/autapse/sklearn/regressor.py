"""RecurrentRegressor: values for each sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length

from autapse import checks
from autapse.sklearn.arrays import read_sequences
from autapse.sklearn.series import SeriesEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class RecurrentRegressor(RegressorMixin, SeriesEstimator):  # type: ignore[misc]
    """Predict values for time series with a recurrent network.

    X is an array [n, channels, time], or [n, time] for one channel; or a list of arrays [channels, time], if lengths
    differ; or a list of data frames with a row per step and a column per channel, which is matched by name. Arrays may
    be padded with NaN at the end. After `fit`, the model is in `model_`, the training loss at every
    tenth step in `loss_curve_`, and the number of updates in `n_iter_`.

    >>> X = np.random.default_rng(0).normal(size=(60, 30))  # 60 series, one channel, 30 steps
    >>> y = 100 + 50 * X.mean(1)
    >>> model = RecurrentRegressor(preset="none", readout="mean", hidden_size=8, steps=200, random_state=0).fit(X, y)
    >>> model.predict(X).shape, model.score(X, y) > 0.8  # R²
    ((60,), True)
    """

    kept: ClassVar[tuple[str, ...]] = (*SeriesEstimator.kept, "_one_value")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new model. Nothing is written to disk.

        Args:
            X: the time series.
            y: [n] the value of each, or [n, k] several values.
            sample_weight: [n] the weight of each in the loss.

        Returns:
            The estimator itself.
        """
        values, one = self._values(y)
        sequences = read_sequences(self, X, reset=True)
        check_consistent_length(sequences, values)
        self._one_value = one
        return self._fit(sequences, values, (), self._weights(sample_weight, len(sequences)))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train further: one pass over these series. The first call also chooses the settings and the scaling.

        Args:
            X: the time series.
            y: [n] or [n, k] the values.
            sample_weight: [n] the weight of each in the loss.

        Returns:
            The estimator itself.
        """
        values, one = self._values(y)
        first = not self.__sklearn_is_fitted__()
        sequences = read_sequences(self, X, reset=first)
        check_consistent_length(sequences, values)
        if first:
            self._one_value = one
        elif values.shape[1] != self.signature_.output_size:
            checks.fail("y", f"have {self.signature_.output_size} values per series, as before", values.shape[1])
        return self._fit_more(sequences, values, (), self._weights(sample_weight, len(sequences)))

    def predict(self, X: Any) -> np.ndarray:
        """The values of each series, in the unit of y.

        Args:
            X: the time series.

        Returns:
            [n], or [n, k] if y has several values per series.
        """
        values = np.stack(self.model_.scores(self._read(X))).astype(np.float64)
        return values[:, 0] if self._one_value else values

    def _values(self, y: Any) -> tuple[np.ndarray, bool]:  # [n, k] float32
        """The values, and whether y has one dimension."""
        self._require(y)
        values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        if values.ndim > 2:
            checks.fail("y", "have shape [n] or [n, k]", values.shape, kind=checks.ShapeError)
        return values.reshape(len(values), -1).astype(np.float32), values.ndim == 1
