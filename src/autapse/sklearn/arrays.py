"""Sequences from the arrays that people pass to estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from autapse import checks
from autapse.data.formats.timeseries import LARGEST

NUMBERS: dict[str, Any] = {"ensure_all_finite": "allow-nan", "dtype": [np.float64, np.float32]}
AXES = {"nct": "[n, channels, time]", "ntc": "[n, time, channels]"}


def read_sequences(estimator: Any, X: Any, *, reset: bool) -> list[np.ndarray]:  # [T_n, channels] each
    """The sequences of X, without the NaN that pad them at the end.

    Args:
        estimator: the estimator, with `layout` and, if missing values are allowed, `missing`. Its attributes
            `n_features_in_`, `n_channels_in_`, `feature_names_in_` and `channel_names_in_` are set or compared.
        X: an array [n, channels, time], or [n, time] for one channel; or a list of arrays, [channels, time] or [time].
            With the layout "ntc", time comes before channels. Or a list of data frames with a row per step and a column
            per channel; the channels are matched by name.
        reset: set these attributes, rather than compare with them.
    """
    checks.one_of("layout", estimator.layout, AXES)
    table = not is_listed(X) and getattr(X, "ndim", 2) <= 2
    if reset:
        vars(estimator).pop("channel_names_in_", None)
        if is_listed(X) and is_table(X[0]):
            estimator.channel_names_in_ = np.array([str(name) for name in X[0].columns])
    if table and estimator.fixed_length and (reset or estimator._table):
        array = validate_data(estimator, X, reset=reset, **NUMBERS)  # compares the number of steps
        sequences = [row[:, None] for row in array]
    else:
        sequences = read_arrays(estimator, X, names=getattr(estimator, "channel_names_in_", None))
    channels = _channels(sequences)
    if reset:
        estimator.n_channels_in_, estimator._table = channels, table
        if not (table and estimator.fixed_length):
            estimator.n_features_in_ = channels
            vars(estimator).pop("feature_names_in_", None)
    elif channels != estimator.n_channels_in_:
        rule = f"have {estimator.n_channels_in_} channels, as in fit"
        checks.fail("X", rule, channels, _other_layout(estimator), kind=checks.ShapeError)
    return [_trimmed(estimator, n, one) for n, one in enumerate(sequences)]


def read_arrays(
    estimator: Any, X: Any, name: str = "X", names: np.ndarray | None = None
) -> list[np.ndarray]:  # [T_n, channels] each
    """The sequences of an argument, with their padding; of data frames the columns with these names."""
    layout = estimator.layout
    if is_listed(X):
        return [
            _from_table(f"{name}[{n}]", one, names) if is_table(one) else _listed(f"{name}[{n}]", one, layout)
            for n, one in enumerate(X)
        ]
    if getattr(X, "ndim", 2) > 3:
        checks.fail(name, f"have shape {AXES[layout]} or [n, time], or be a list", X.shape, kind=checks.ShapeError)
    array = check_array(X, input_name=name, estimator=estimator, allow_nd=True, **NUMBERS)
    if array.ndim == 2:
        return [row[:, None] for row in array]
    return list(array.swapaxes(1, 2) if layout == "nct" else array)


def is_listed(X: Any) -> bool:
    """Whether X is a list of sequences with several channels or of unequal lengths, rather than one array."""
    if not isinstance(X, list | tuple) or not X:
        return False
    shapes = [np.shape(one) if hasattr(one, "shape") else _nested_shape(one) for one in X]
    return any(len(shape) > 1 for shape in shapes) or (len(set(shapes)) > 1 and () not in shapes)


def _nested_shape(value: Any) -> tuple[int, ...]:
    """The shape of nested lists, as far as the first entries show it."""
    shape = []
    while isinstance(value, list | tuple) or np.ndim(value):
        shape.append(len(value))
        value = value[0] if len(value) else None
    return tuple(shape)


def is_table(one: Any) -> bool:
    """Whether a sequence is a data frame of pandas or polars."""
    return hasattr(one, "columns") and hasattr(one, "__getitem__")


def _from_table(name: str, table: Any, known: np.ndarray | None) -> np.ndarray:  # [T, channels]
    """A data frame: its rows are steps. Its columns are those of the training data, in their order."""
    there = {str(column): column for column in table.columns}
    if len(there) < len(table.columns):
        checks.fail(name, "have columns with different names", list(map(str, table.columns)))
    wanted = list(there) if known is None else known.tolist()
    absent = [column for column in wanted if column not in there]
    if absent:
        rule = f"have a column for every channel, also {', '.join(map(repr, absent))}"
        checks.fail(name, rule, list(there), checks.closest(absent[0], there))
    return np.stack(
        [_listed(f"{name}: column {column}", table[there[column]], "ntc")[:, 0] for column in wanted], axis=1
    )


def _listed(name: str, one: Any, layout: str) -> np.ndarray:  # [T, channels]
    try:
        values = np.asarray(one, dtype=np.float64)
    except (TypeError, ValueError):
        checks.fail(name, "be an array of numbers", type(one).__name__, kind=checks.KindError)
    if values.ndim not in (1, 2) or not values.size:
        shape = "[channels, time]" if layout == "nct" else "[time, channels]"
        checks.fail(name, f"have shape {shape} or [time]", values.shape, kind=checks.ShapeError)
    if values.ndim == 1:
        return values[:, None]
    return values.T if layout == "nct" else values


def _channels(sequences: list[np.ndarray]) -> int:
    counts = sorted({one.shape[1] for one in sequences})
    if len(counts) > 1:
        checks.fail("X", "have the same number of channels in every sequence", counts, kind=checks.ShapeError)
    return counts[0]


def _other_layout(estimator: Any) -> str:
    (other,) = set(AXES) - {estimator.layout}
    return f'layout="{estimator.layout}" reads {AXES[estimator.layout]}, layout="{other}" reads {AXES[other]}.'


def _trimmed(estimator: Any, n: int, values: np.ndarray) -> np.ndarray:  # [T, channels] float32
    """A sequence without its padding: the steps at its end where every channel is NaN."""
    absent = np.isnan(values)
    present = np.flatnonzero(~absent.all(axis=1))
    if not len(present):
        checks.fail(f"X[{n}]", "have at least one value that is not NaN", values.shape)
    end = present[-1] + 1
    if absent[:end].any() and getattr(estimator, "missing", "error") == "error":
        choice = 'Choose missing="mask", "forward" or "mean".' if hasattr(estimator, "missing") else "Fill them first."
        remedy = f"{choice} NaN in all channels at the end are padding."
        checks.fail(f"X[{n}]", "have no missing values before its end", f"{absent[:end].sum()} NaN", remedy)
    if (np.abs(values[:end]) > LARGEST).any():
        checks.fail(f"X[{n}]", f"have values of at most {LARGEST:.3g}", "larger ones")
    return values[:end].astype(np.float32)
