"""RecurrentForecaster: the next steps of series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from autapse import checks
from autapse.models.forecaster import Forecaster
from autapse.sklearn import engine
from autapse.sklearn.arrays import read_arrays, read_sequences
from autapse.sklearn.base import RecurrentEstimator
from autapse.tasks import ForecastArrays
from autapse.training.forecast_settings import forecast_config


@dataclass(kw_only=True, eq=False, repr=False)
class RecurrentForecaster(RecurrentEstimator):
    """Forecast the next steps of series with a recurrent network beside a straight line.

    X is one series, [time]; or many: an array [n, channels, time], or [n, time] for one channel; or a list of arrays
    [channels, time] or [time], if lengths differ. After `fit`, the model is in `model_`, the training loss at every
    tenth step in `loss_curve_`, and the number of updates in `n_iter_`.

    Args:
        horizon: Steps to forecast.
        window: Steps of history that a forecast is made from; by default from the season, the horizon and the length.
        season: Steps after which a series repeats, 1 for none; by default found from the data.
        targets: Numbers of the channels to forecast, from 0; by default all that are not known in advance.
        known: Numbers of the channels whose future is known when a forecast is made.
        method: Forecast all steps at once ("one-shot"), or one step at a time ("recursive").
        intervals: Prediction intervals from learned quantiles ("quantile"), from a Gaussian ("gaussian"), or "none".
        validation: Share of each series, at its end, that chooses the best weights.
        time_limit: Seconds that `fit` may take; None for 100.

    >>> X = np.sin(np.arange(200) / 5)
    >>> model = RecurrentForecaster(horizon=10, window=40, steps=20, random_state=0).fit(X[:190])
    >>> forecast = model.predict(X[:190])
    >>> forecast.shape, bool(np.abs(forecast - X[190:]).max() < 0.1)
    ((10,), True)
    """

    horizon: int = 1
    window: int | None = None
    season: int | None = None
    targets: Sequence[int] | None = None
    known: Sequence[int] | None = None
    method: Literal["one-shot", "recursive"] = "one-shot"
    intervals: Literal["quantile", "gaussian", "none"] = "quantile"
    validation: float = 0.2

    fixed_length: ClassVar[bool] = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train a new model on the history of the series. Nothing is written to disk.

        Args:
            X: the series.
            y: ignored; pipelines pass it.

        Returns:
            The estimator itself.
        """
        sequences = read_sequences(self, _many(X), reset=True)
        model, training = self._given()
        task = ForecastArrays(
            sequences,
            horizon=self.horizon,
            window=self.window,
            season=self.season,
            target_column=self._names("targets"),
            known=self._names("known"),
            method=self.method,
            intervals=self.intervals,
            validation=self.validation,
            test_share=0.0,
        )
        with engine.own_randomness(self.device):
            self._trained = engine.train_task(forecast_config(task, model=model, training=training))
        return self

    def predict(self, X: Any, known: Any = None, steps: int | None = None) -> np.ndarray:
        """Forecast the values after the end of each series.

        Args:
            X: the series up to now. At least `window` steps are needed.
            known: the future of the known channels, in the layout of X.
            steps: steps to forecast; by default the horizon. With more, forecasts are read as history.

        Returns:
            [n, steps]; with several channels to forecast [n, channels, steps] in the layout "nct", or
            [n, steps, channels] in the layout "ntc". Without the axis n if X is one series, [time].
        """
        return self._arranged(self._forecast(X, known, steps), X)

    def predict_interval(
        self, X: Any, coverage: float = 0.9, known: Any = None, steps: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Prediction intervals of the forecasts.

        Args:
            X: the series up to now.
            coverage: the share of values that an interval should contain.
            known: the future of the known channels, in the layout of X.
            steps: steps to forecast; by default the horizon.

        Returns:
            The lower and the upper limits, each in the form of what `predict` returns.
        """
        forecasts = self._forecast(X, known, steps, intervals=coverage)
        return self._arranged(forecasts.lower, X), self._arranged(forecasts.upper, X)

    def score(self, X: Any, y: Any, known: Any = None) -> float:
        """R² of the forecasts.

        Args:
            X: the series up to now.
            y: their next values, in the form of what `predict` returns.
            known: the future of the known channels, in the layout of X.

        Returns:
            1 for perfect forecasts, 0 for those that are as good as the mean of y.
        """
        true = np.asarray(y, dtype=np.float64)
        forecast = self.predict(X, known)
        if true.shape != forecast.shape:
            checks.fail("y", f"have the shape of the forecasts, {forecast.shape}", true.shape, kind=checks.ShapeError)
        return float(r2_score(true.reshape(-1), forecast.reshape(-1)))

    def _forecast(self, X: Any, known: Any, steps: int | None, **options: Any) -> Any:
        check_is_fitted(self)
        future = None if known is None else read_arrays(self, known, "known")
        return cast("Forecaster", self.model_).forecast(self._read(_many(X)), future, steps, **options)

    def _arranged(self, values: np.ndarray, X: Any) -> np.ndarray:  # [n, steps] or [n, steps, channels]
        values = values.swapaxes(1, 2) if values.ndim == 3 and self.layout == "nct" else values
        return (values[0] if _ndim(X) == 1 else values).astype(np.float64)

    def _names(self, parameter: str) -> tuple[str, ...]:
        """The names that the task gives to some channels: x1, x2, ..."""
        channels = getattr(self, parameter) or ()
        most = self.n_channels_in_ - 1
        return tuple(f"x{checks.integer(parameter, one, minimum=0, maximum=most) + 1}" for one in channels)


def _many(X: Any) -> Any:
    """One series, [time], as a list of series."""
    return [X] if _ndim(X) == 1 else X


def _ndim(X: Any) -> int:
    return 1 if isinstance(X, list | tuple) and X and all(np.ndim(one) == 0 for one in X) else getattr(X, "ndim", 2)
