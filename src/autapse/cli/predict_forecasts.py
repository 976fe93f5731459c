"""`autapse predict` for a run that forecasts: the values after the end of each series, with prediction intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from autapse import checks
from autapse.cli.predictions import Predictions
from autapse.data.formats.sequences import FileLayout
from autapse.tasks import Forecast, Signature
from autapse.tasks.base import ForecastShape
from autapse.tasks.history import Ends, read_history


def predict_forecasts(path: Path, model: Any, task: Any, signature: Signature, steps: int | None) -> Predictions:
    """The forecasts for the series of a file.

    Args:
        path: the file. Its channels are found by name. After the end of a series, rows in which only the known columns
            have values say what is known about the future.
        model: the model of the run.
        task: the task of the run.
        signature: the signature of its data.
        steps: steps to forecast; None for the horizon.
    """
    shape = signature.forecast
    assert shape is not None
    ends = read_history(path, _layout(task, signature), shape.known)
    width = ends.history.values.values.shape[1]
    if width != len(signature.channels):
        rule = f"have {len(signature.channels)} channels per step ({', '.join(signature.channels)}), as the run's task"
        checks.fail(str(path), rule, width, kind=checks.ShapeError)
    series = [ends.history.values[n] for n in range(len(ends.history.values))]
    known = _known(path, ends, shape, signature, steps or shape.horizon) if shape.known else None
    made = model.forecast(series, known, steps, shape.levels or None)
    values, *limits = made if shape.levels else (made,)
    values, *limits = (part.reshape(len(series), -1, len(shape.targets), *part.shape[3:]) for part in (values, *limits))
    columns = _columns(shape)
    answers = [_rows(columns, values[n], [limit[n] for limit in limits]) for n in range(len(series))]
    names = ends.history.names if len(series) > 1 else ()
    return Predictions(answers, list(values), names, columns, every_step=True, first_step=1)


def _layout(task: Any, signature: Signature) -> FileLayout:
    if not isinstance(task, Forecast):
        return FileLayout(channels=signature.channels)
    layout = task.layout.fitted(signature.channels, task.time_step)
    return replace(layout, times="resample") if task.times == "resample" else layout


def _known(
    path: Path, ends: Ends, shape: ForecastShape, signature: Signature, steps: int
) -> list[np.ndarray]:  # [steps, known] each
    block = 1 if shape.recursive else shape.horizon
    needed = -(-steps // block) * block
    for future, name in zip(ends.future, ends.history.names, strict=True):
        if len(future) < needed:
            rule = f"have {needed} rows after the end of series {name!r}, with {', '.join(shape.known)} alone"
            checks.fail(str(path), rule, len(future), "Leave the cells of all other channels empty there.")
    places = [signature.channels.index(name) for name in shape.known]
    return [future[:needed, places] for future in ends.future]


def _columns(shape: ForecastShape) -> tuple[str, ...]:
    limits = [f"{side} {level:.4g}" for level in shape.levels for side in ("lower", "upper")]
    return tuple(column for name in shape.targets for column in (name, *(f"{name} {limit}" for limit in limits)))


def _rows(columns: tuple[str, ...], values: np.ndarray, limits: list[np.ndarray]) -> list[dict[str, float]]:
    """One mapping per step, from values [steps, K] and limits [steps, K, levels]."""
    both = np.stack(limits, axis=-1).reshape(*values.shape, -1) if limits else np.zeros((*values.shape, 0))
    table = np.concatenate([values[..., None], both], axis=-1).reshape(len(values), -1)
    return [dict(zip(columns, map(_shortest, row), strict=True)) for row in table]


def _shortest(value: np.floating[Any]) -> float:
    """The shortest decimal number that is this value in single precision."""
    return float(str(np.float32(value)))
