"""Series to forecast, with the names of their channels: from a file, an array, a list, or a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class History:
    """N series of any lengths with the same channels.

    Args:
        values: Ragged, with steps of shape [channels] float32.
        channels: The names of the channels.
        names: The names of the series.

    Example:
        >>> History.of([[1.0, 2.0, 3.0], [4.0, 5.0]]).values.lengths
        array([3, 2])
    """

    values: Ragged
    channels: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, series: Any, channels: Sequence[str] = ()) -> History:
        """Series from an array [T] or [T, D], a list of such arrays, or a table.

        Args:
            series: One series or a list of series. A table has names of columns: a dictionary, or a data frame.
            channels: The names of the columns; for tables those to take, in this order.
        """
        if is_table(series):
            found = [_table("series", series, channels)]
        elif _single(series):
            found = [_array("series", series)]
        else:
            found = [
                _table(f"series[{n}]", one, channels) if is_table(one) else _array(f"series[{n}]", one)
                for n, one in enumerate(series)
            ]
        if not found:
            checks.fail("series", "have at least one series", 0)
        widths = sorted({one.shape[1] for one in found})
        if len(widths) > 1:
            checks.fail("series", "have the same number of channels each", widths, kind=checks.ShapeError)
        first = next((one for one in ([series] if is_table(series) else series) if is_table(one)), None)
        names = tuple(channels) or (tuple(_columns(first)) if first is not None else ())
        names = names or tuple(f"x{n + 1}" for n in range(widths[0]))
        if len(names) != widths[0] or len(set(names)) != len(names):
            checks.fail("channels", f"have {widths[0]} different names", names, kind=checks.ShapeError)
        return cls(Ragged.of(found), names, tuple(str(n) for n in range(len(found))))

    def place(self, name: str, argument: str) -> int:
        """The number of a channel."""
        if name not in self.channels:
            rule = f"be among the columns {', '.join(self.channels)}"
            checks.fail(argument, rule, name, checks.closest(name, self.channels))
        return self.channels.index(name)


def named_columns(argument: str, names: Any) -> tuple[str, ...]:
    """Names of columns as a tuple; a single name is accepted too."""
    found = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) and name for name in found) or len(set(found)) != len(found):
        checks.fail(argument, "be different names of columns", names)
    return found


def is_table(value: Any) -> bool:
    """Whether a value has columns with names."""
    return isinstance(value, Mapping) or (hasattr(value, "columns") and hasattr(value, "__getitem__"))


def _single(series: Any) -> bool:
    """Whether this is one series: an array, or a list of numbers."""
    if isinstance(series, np.ndarray) and series.dtype != object:
        return True
    return all(np.ndim(one) == 0 for one in series)


def _columns(table: Any) -> Iterable[str]:
    return [str(name) for name in (table if isinstance(table, Mapping) else table.columns)]


def _table(name: str, table: Any, channels: Sequence[str]) -> np.ndarray:  # [T, D]
    there = list(_columns(table))
    for column in channels:
        if column not in there:
            closest = checks.closest(column, there)
            checks.fail(name, f"have the column {column!r}", f"the columns {', '.join(there)}", closest)
    columns = [_array(f"{name}[{column!r}]", table[column]) for column in channels or there]
    if len({len(column) for column in columns}) > 1:
        checks.fail(name, "have columns of equal length", [len(column) for column in columns], kind=checks.ShapeError)
    return np.concatenate(columns, axis=1)


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


def read_history(path: Path, sequence_column: str = "", time_column: str = "") -> History:
    """The series of a file. Their times must increase; missing values are an error."""
    from autapse.data.formats import table as tables

    if path.suffix.lower() == ".csv":
        return _from_csv(tables, path, sequence_column, time_column)
    found = tables.read_sequences(path)
    width = found.inputs.values.shape[1]
    names = found.names or tuple(str(n) for n in range(len(found.inputs)))
    return History(found.inputs, tuple(f"x{n + 1}" for n in range(width)), names)


def _from_csv(tables: Any, path: Path, sequence_column: str, time_column: str) -> History:
    needed = [name for name in (sequence_column, time_column) if name]
    table = tables._load(path, needed)
    sequence = sequence_column or ("sequence" if "sequence" in table.header else "")
    time = time_column or tables._order(table) or ""
    channels = tuple(name for name in table.header if name not in (sequence, time))
    if not channels:
        raise checks.InputError(f"{path} has no channels: its only columns are {', '.join(table.header)}.")
    values = np.stack([table.numbers(name) for name in channels], axis=1).astype(np.float32)
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table.column(sequence) if sequence else [""] * len(values)):
        rows.setdefault(name, []).append(row)
    times = table.numbers(time) if time else None
    for own in rows.values():
        steps = np.diff(times[own]) if times is not None else np.ones(0)
        wrong = np.flatnonzero(steps <= 0)
        if len(wrong):
            row = own[wrong[0] + 1]
            what = "is there twice" if steps[wrong[0]] == 0 else "is before the time of the row above it"
            table.fail(row, time, f"{table.column(time)[row]} {what}. Sort the rows by time")
    return History(Ragged.of([values[own] for own in rows.values()]), channels, tuple(rows))
