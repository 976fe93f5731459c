"""How good a forecaster is: errors beside those of simple predictors, and the coverage of its intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from autapse import checks
from autapse.models import Forecaster
from autapse.models.forecaster import Forecasts
from autapse.records import Record
from autapse.tasks.base import Split
from autapse.tasks.forecast import Forecasting
from autapse.tasks.windows import thinned

MOST_PATHS = 200  # windows for the coverage of forecasts that read their own forecasts


@dataclass(frozen=True, kw_only=True)
class ForecastErrors(Record):
    """The errors of one predictor, in the unit of the data, over all windows, steps and channels."""

    mse: float
    """Mean squared error."""
    mae: float
    """Mean absolute error."""
    mase: float
    """Mean absolute scaled error: the mean absolute error of each series and channel, divided by that of the
    seasonal-naive forecast in its training part; then the mean."""


@dataclass(frozen=True, kw_only=True)
class ForecastReport(Record):
    """What `forecast.json` has: how good the forecasts of a split are."""

    split: str
    windows: int
    horizon: int
    window: int
    season: int
    season_given: bool
    """Whether the season was given, rather than found in the training part."""
    errors: dict[str, Any] = field(default_factory=dict)
    """`ForecastErrors` by predictor."""
    coverage: dict[str, float] = field(default_factory=dict)
    """The share of values within each prediction interval, by the level of the interval."""


def forecast_errors(task: Forecasting, split: Split, values: np.ndarray) -> ForecastErrors:
    """The errors of forecasts.

    Args:
        task: the task.
        split: the split.
        values: [N, H, K], the forecasts of all its windows.

    Returns:
        The errors.

    >>> from autapse.tasks import ForecastArrays
    >>> task = ForecastArrays(np.arange(100.0), horizon=2, window=5, season=1)
    >>> forecast_errors(task, "test", task.part("test").targets + 3.0)
    ForecastErrors(mse=9.0, mae=3.0, mase=3.0)
    """
    part = task.part(split)
    if values.shape != part.targets.shape:
        checks.fail("values", f"have shape {part.targets.shape}", values.shape, kind=checks.ShapeError)
    error = values.astype(np.float64) - part.targets
    scaled = np.abs(error).mean(axis=1) / task.scaled_error_units[part.series]  # [N, K]
    present = np.unique(part.series)
    mase = np.mean([scaled[part.series == n].mean() for n in present])
    return ForecastErrors(mse=float(np.square(error).mean()), mae=float(np.abs(error).mean()), mase=float(mase))


@torch.no_grad()
def window_forecasts(model: Forecaster, windows: np.ndarray, levels: tuple[float, ...]) -> Forecasts:
    """The forecasts of windows [N, W, D], [N, H, K]; and the limits of intervals, [N, H, K, levels]."""
    made = []
    for first in range(0, len(windows), 512):
        x = torch.from_numpy(windows[first : first + 512]).to(model.head.weight)
        made.append([part.cpu().numpy() for part in model.limits(x, levels)])
    return Forecasts(*(np.concatenate(part) for part in zip(*made, strict=True)))


def forecast_report(model: Forecaster, task: Forecasting, split: Split = "test") -> ForecastReport:
    """Score the forecasts of a model and of simple predictors.

    Args:
        model: the model.
        task: its task.
        split: the split to score. It must have windows.

    Returns:
        The report.

    >>> from autapse.tasks import ForecastArrays
    >>> from autapse.training import fit, forecast_config
    >>> task = ForecastArrays(np.sin(np.arange(300) / 4), horizon=3, window=30)
    >>> model = fit(forecast_config(task, training={"steps": 1})).model
    >>> report = forecast_report(model, task)
    >>> list(report.errors), list(report.coverage)
    (['model', 'least squares', 'last season', 'last value'], ['0.8', '0.95'])
    """
    part, shape = task.part(split), task.shape
    if not len(part.windows):
        raise checks.InputError(f"There are no {split} data to score: {split} has a share of 0.")
    windows = part.windows.array()
    values = window_forecasts(model, windows, ()).values
    errors = {"model": values, **dict(reversed(task.baselines(split).items()))}
    return ForecastReport(
        split=split,
        windows=len(windows),
        horizon=shape.horizon,
        window=shape.window,
        season=shape.season,
        season_given=task.season is not None,
        errors={name: vars(forecast_errors(task, split, made)) for name, made in errors.items()},
        coverage=_coverage(model, windows, part.targets, shape.levels),
    )


def _coverage(
    model: Forecaster, windows: np.ndarray, wanted: np.ndarray, levels: tuple[float, ...]
) -> dict[str, float]:
    if not levels:
        return {}
    if model.block < model.horizon:  # random paths take time
        chosen = thinned(np.arange(len(windows)), MOST_PATHS)
        windows, wanted = windows[chosen], wanted[chosen]
    _, lower, upper = window_forecasts(model, windows, levels)
    inside = (wanted[..., None] >= lower) & (wanted[..., None] <= upper)
    return {f"{level:g}": float(inside[..., n].mean()) for n, level in enumerate(levels)}
