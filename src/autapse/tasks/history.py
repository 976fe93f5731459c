"""Series to forecast, with the names of their channels: from a file, an array or a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from autapse import checks
from autapse.data.formats.sequences import SINCE, FileLayout
from autapse.data.formats.table import read_sequences
from autapse.data.ragged import Ragged

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Histories:
    """N series of any lengths with the same channels.

    Args:
        values: Ragged, with steps of shape [channels] float32.
        channels: The names of the channels.
        names: The names of the series.

    Example:
        >>> Histories.of([[1.0, 2.0, 3.0], [4.0, 5.0]]).values.lengths
        array([3, 2])
    """

    values: Ragged
    channels: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, series: Any, channels: Sequence[str] = ()) -> Histories:
        """Series from an array [T] or [T, D], or from a list of such arrays.

        Args:
            series: One series or a list of series.
            channels: The names of the D columns; by default x1, x2, ...
        """
        single = isinstance(series, np.ndarray) or all(np.ndim(one) == 0 for one in series)
        arrays = [_array("series", series)] if single else [_array(f"series[{n}]", s) for n, s in enumerate(series)]
        if not arrays:
            checks.fail("series", "have at least one series", 0)
        widths = sorted({one.shape[1] for one in arrays})
        if len(widths) > 1:
            checks.fail("series", "have the same number of channels each", widths, kind=checks.ShapeError)
        names = tuple(channels) or tuple(f"x{n + 1}" for n in range(widths[0]))
        if len(names) != widths[0] or len(set(names)) != len(names):
            checks.fail("channels", f"have {widths[0]} different names", names, kind=checks.ShapeError)
        return cls(Ragged.of(arrays), names, tuple(str(n) for n in range(len(arrays))))

    def place(self, name: str, argument: str) -> int:
        """The number of a channel."""
        if name not in self.channels:
            rule = f"be among the columns {', '.join(self.channels)}"
            checks.fail(argument, rule, name, checks.closest(name, self.channels))
        return self.channels.index(name)


def named_columns(argument: str, names: Any) -> tuple[str, ...]:
    """Names of columns as a tuple; a single name is accepted too."""
    columns = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) and name for name in columns) or len(set(columns)) != len(columns):
        checks.fail(argument, "be different names of columns", names)
    return columns


def _array(name: str, series: Any) -> np.ndarray:  # [T, D]
    values = np.asarray(series.detach().cpu() if hasattr(series, "detach") else series)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size:
        checks.fail(name, "have shape [T] or [T, D], with at least one step", values.shape, kind=checks.ShapeError)
    if values.dtype.kind not in "fiub":
        checks.fail(name, "have numbers", str(values.dtype), kind=checks.KindError)
    finite = np.abs(values.astype(np.float64)) <= LARGEST  # false for NaN
    if not finite.all():
        step, channel = np.argwhere(~finite)[0]
        rule = "have finite values only"
        checks.fail(f"{name}, step {step}", rule, float(values[step, channel]), "Fill gaps first.")
    return values.astype(np.float32)


class Ends(NamedTuple):
    """Series without the rows at their ends in which only known columns have values; and those rows."""

    history: Histories
    future: list[np.ndarray]  # [steps, channels] each


def read_history(path: Path, layout: FileLayout, known: Sequence[str] = ()) -> Ends:
    """The series of a file, in the order of their times.

    Args:
        path: The file.
        layout: What its columns are.
        known: Columns that may have values after the end of a series, where all other columns are empty.

    Returns:
        The series up to their ends, and what is known after that. A missing value anywhere else is an error.
    """
    single = not layout.sequence
    file = read_sequences(path, replace(layout, targets=None, form="long", single=single, missing=True))
    width = file.inputs.values.shape[1]
    channels = file.channels or tuple(f"x{n + 1}" for n in range(width))
    names = file.names or tuple(str(n) for n in range(len(file.inputs)))
    rest = [n for n, name in enumerate(channels) if name not in (*known, SINCE)]
    past, future = [], []
    for n, name in enumerate(names):
        values = file.inputs[n]
        empty = np.isnan(values[:, rest]).all(axis=1) if known else np.zeros(len(values), dtype=bool)
        end = len(values) - int(np.argmin(empty[::-1])) if not empty.all() else 0
        _check_gaps(path, name if file.names else "", values[:end], channels)
        if not end:
            listed = ", ".join(channels[place] for place in rest)
            raise checks.InputError(f"{path} has no values of {listed} in series {name!r}.")
        past.append(values[:end])
        future.append(values[end:])
    return Ends(Histories(Ragged.of(past), channels, names), future)


def _check_gaps(path: Path, series: str, values: np.ndarray, channels: Sequence[str]) -> None:
    gaps = np.argwhere(~np.isfinite(values))
    if len(gaps):
        step, channel = gaps[0]
        where = f"step {step + 1}" + (f" of series {series!r}" if series else "")
        reason = "a value is missing. Forecasts need every value: fill the gaps first"
        raise checks.InputError(f"{path}, {where}, column {channels[channel]!r}: {reason}.")
