"""What people pass to a trained model: arrays, lists or tables, one sequence or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from autapse import checks
from autapse.data.ragged import padded_lengths

GAPS = 'Fill them, or train with missing="mask" (--missing mask), forward or mean.'


class Given(NamedTuple):
    """Sequences with their form: a single one, one array of all, or a list."""

    series: list[np.ndarray]  # [T_n, D] each
    form: Literal["single", "array", "list"]


class Expected(NamedTuple):
    """What a model reads."""

    columns: int
    channels: Sequence[str]  # their names; empty if they have none
    words: bool  # whether there are word columns, so that integers stay integers
    gaps: bool  # whether values may be missing
    dtype: str = "float32"  # of values
    remedy: str = GAPS  # for missing values that are not allowed


def read_given(x: Any, lengths: Any, expected: Expected) -> Given:
    """The sequences in what a user passes.

    Args:
        x: one sequence: an array or a list of lists [T, D], or a table with a column per channel; [T] if there is one
            channel. Many sequences: an array [N, T, D], or a list of sequences; [N, T] if there is one channel.
        lengths: [N], the length of each sequence of an array with padding.
        expected: what the model reads.

    Returns:
        The sequences, checked, as arrays of `dtype`, or of integers for words.

    >>> two = read_given([[1, 2, 3], [4, 5]], None, Expected(1, (), False, False))
    >>> [one.shape for one in two.series], two.form
    ([(3, 1), (2, 1)], 'list')
    """
    if is_table(x):
        return Given([_checked(_from_table(x, "x", expected), "x", expected)], "single")
    array = _regular(x)
    if array is None:
        given = Given([_one(one, f"x[{n}]", expected) for n, one in enumerate(x)], "list")
        if lengths is not None:
            checks.fail("lengths", "be None if x is a list, whose sequences have their own lengths", lengths)
    else:
        given = _from_array(array, lengths, expected, "list" if isinstance(x, list | tuple) else "array")
    if not given.series:
        checks.fail("x", "have at least one sequence", 0)
    return given


def read_step(x: Any, expected: Expected, batch_size: int) -> np.ndarray:  # [batch_size, D]
    """The values of one step in what a user passes: [D], or [batch_size, D] for several sequences; or a table row."""
    values = _row(x, expected) if is_table(x) else _array(x, "x")
    if values.ndim < 2 and batch_size == 1:
        values = values.reshape(1, -1)
    if values.shape != (batch_size, expected.columns):
        shape = (expected.columns,) if batch_size == 1 else (batch_size, expected.columns)
        checks.fail("x", f"have shape {shape}{_names(expected)}", np.shape(x), kind=checks.ShapeError)
    return _checked(values, "x", expected)


def is_table(x: Any) -> bool:
    """Whether columns have names: a mapping, a data frame, or a numpy array with fields."""
    fields = isinstance(x, np.ndarray) and x.dtype.names is not None
    return fields or isinstance(x, Mapping) or (hasattr(x, "columns") and hasattr(x, "__getitem__"))


def _regular(x: Any) -> np.ndarray | None:
    """x as one array of numbers; None if it is a list of sequences that differ in length, or of tables."""
    if isinstance(x, list | tuple):
        if any(is_table(one) for one in x):
            return None
        try:
            return _array(np.stack([np.asarray(one) for one in x]) if x else np.zeros(0), "x")
        except ValueError:  # unequal lengths
            return None
    return _array(x, "x")


def _array(x: Any, name: str) -> np.ndarray:
    try:
        values = np.asarray(x)
    except ValueError:  # lists of different lengths
        checks.fail(name, "have the same number of channels at every step", "lists of different lengths")
    if values.dtype.kind not in "fiub":
        checks.fail(name, "have numbers", type(x).__name__ if values.ndim == 0 else str(values.dtype))
    return values


def _from_array(array: np.ndarray, lengths: Any, expected: Expected, form: Literal["array", "list"]) -> Given:
    one_channel = expected.columns == 1
    if array.ndim == 1 and one_channel:
        array, single = array[None, :, None], True
    elif array.ndim == 2 and array.shape[1] != expected.columns and one_channel:
        array, single = array[:, :, None], False
    elif array.ndim == 2:
        array, single = array[None], True
    else:
        single = False
    if array.ndim != 3 or array.shape[2] != expected.columns:
        rule = f"have {expected.columns} {_noun(expected)} per step{_names(expected)}, as the training data"
        checks.fail("x", rule, array.shape[1:] if single else array.shape, kind=checks.ShapeError)
    ends = padded_lengths(lengths, *array.shape[:2])
    names = ["x"] if single else [f"x[{n}]" for n in range(len(array))]
    series = [_checked(one[:end], name, expected) for one, end, name in zip(array, ends, names, strict=True)]
    return Given(series, "single" if single else form)


def _one(x: Any, name: str, expected: Expected) -> np.ndarray:  # [T, D]
    """One sequence of a list."""
    values = _from_table(x, name, expected) if is_table(x) else _array(x, name)
    values = values[:, None] if values.ndim == 1 and expected.columns == 1 else values
    if values.ndim != 2 or values.shape[1] != expected.columns:
        rule = f"have {expected.columns} {_noun(expected)} per step{_names(expected)}, as the training data"
        checks.fail(name, rule, values.shape, kind=checks.ShapeError)
    return _checked(values, name, expected)


def _from_table(table: Any, name: str, expected: Expected) -> np.ndarray:  # [T, D]
    columns = [_array(table[channel], f"{name}: column {channel}") for channel in _known(table, name, expected)]
    if any(column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        shapes = [column.shape for column in columns]
        checks.fail(name, "have columns of the same length", shapes, kind=checks.ShapeError)
    return np.stack(columns, axis=1)


def _row(table: Any, expected: Expected) -> np.ndarray:  # [1, D]
    """One step from a mapping of names to values, such as a row of a table."""
    values = [np.asarray(table[channel]).reshape(-1) for channel in _known(table, "x", expected)]
    return np.stack([_array(value, "x") for value in values], axis=1)


def _known(table: Any, name: str, expected: Expected) -> Sequence[str]:
    """The names of the channels, all of which the table must have. Its other columns are ignored."""
    if not expected.channels:
        remedy = "Pass an array with the channels in the order of the training data."
        checks.fail(name, "be an array, since the channels of the training data had no names", "a table", remedy)
    present = list(table.dtype.names if isinstance(table, np.ndarray) else getattr(table, "columns", table))
    absent = [channel for channel in expected.channels if channel not in present]
    if absent:
        rule = f"have a column for every channel of the training data, also {', '.join(map(repr, absent))}"
        checks.fail(name, rule, present, checks.closest(absent[0], map(str, present)))
    return expected.channels


def _checked(values: np.ndarray, name: str, expected: Expected) -> np.ndarray:  # [T, D]
    """The values of a sequence in the type that models read, if they can be read."""
    if not len(values):
        checks.fail(name, "have at least one step", values.shape, kind=checks.ShapeError)
    if values.dtype.kind in "iub":
        return values.astype(np.int64 if expected.words else expected.dtype)
    with np.errstate(over="ignore"):
        values = values.astype(expected.dtype)
    if np.isfinite(values).all():
        return values
    missing = int(np.isnan(values).sum())
    if missing and not expected.gaps:
        checks.fail(name, "have no missing values (NaN), since the training data had none", missing, expected.remedy)
    if np.isinf(values).any():
        checks.fail(name, "have finite values", f"infinity, or a value that {expected.dtype} cannot hold")
    return values


def _noun(expected: Expected) -> str:
    return "channel" if expected.columns == 1 else "channels"


def _names(expected: Expected) -> str:
    return f" ({', '.join(expected.channels)})" if expected.channels else ""
