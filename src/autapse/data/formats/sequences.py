"""Sequences from a table: which column is what, and how rows become sequences.

Long form: one row per step. Column `sequence` is the sequence that a row belongs to. Column `target` is the target of
the sequence, the same in all its rows, or a target for each row. Column `time` or `step` gives the order of the rows.
Every other column is a channel. Wide form: one row per sequence, and one column per step, whose names are numbered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, Protocol

import numpy as np

from autapse import checks
from autapse.data.formats.decimals import ALLOW
from autapse.data.formats.delimited import Column, Reading, Texts
from autapse.data.formats.timeseries import LARGEST, Series, number_or_none, ordered_labels
from autapse.data.ragged import Ragged

Form = Literal["auto", "long", "wide"]
Times = Literal["auto", "input", "resample", "ignore"]
Per = Literal["auto", "series", "step"]

ORDER = ("time", "step")
UNNAMED = ("", "Unnamed: 0")  # columns without a name; the second one is what pandas calls them
INTEGER = re.compile(r"[+-]?\d+")
NUMBERED = re.compile(r"(.*?)(\d+)")
SINCE = "time since the step before"
"""The name of the channel that irregular times become."""
UNEVEN = 0.01  # steps that differ by less than this share of the median step are regular
DAY = 86_400.0  # seconds
CALENDAR = ((28, 31), (90, 92), (365, 366))  # days of a month, a quarter and a year, which are regular too
OPTIONS = {
    "sequence": "--sequence-column, or add --form wide if each row is a series",
    "target": "--target-column",
}


@dataclass(frozen=True)
class FileLayout:
    """What the columns of a table and the arrays of a file are.

    Args:
        sequence: The column with the sequence of each row; empty for `sequence`.
        time: The column with the time of each row; empty for `time` or `step`, if there is one.
        targets: The columns with targets; empty for `target`; None for no targets, so that all columns are channels.
        channels: The columns with channels, in this order; empty for all others.
        form: One row per step (long) or one row per sequence (wide).
        times: What irregular times become: the time since the step before as a further channel (input), values at
            regular times between them (resample), or nothing (ignore). With auto, an input.
        time_step: The step to resample to; 0 for the median.
        per: Whether a target is for a whole series or for a step.
        missing: Whether values may be missing.
        single: Whether a table without a column `sequence` is one sequence.
        size: The number of channels that a model needs; 0 if it is not known.
    """

    sequence: str = ""
    time: str = ""
    targets: tuple[str, ...] | None = ()
    channels: tuple[str, ...] = ()
    form: Form = "auto"
    times: Times = "auto"
    time_step: float = 0.0
    per: Per = "auto"
    missing: bool = False
    single: bool = False
    size: int = 0

    def fitted(self, channels: tuple[str, ...], time_step: float) -> FileLayout:
        """The layout of another file with the same channels, in the same order, and with the same use of times."""
        times: Times = "input" if SINCE in channels else "resample" if time_step else "ignore"
        own = tuple(name for name in channels if name != SINCE)
        return replace(self, channels=own, times=times, time_step=time_step)


class Columnar(Protocol):
    """Columns by name, from a file of any kind."""

    @property
    def path(self) -> Path: ...
    @property
    def header(self) -> list[str]: ...
    def head(self, name: str) -> list[str]:
        """The cells of a column in the first rows, as texts."""

    def read(
        self, columns: Mapping[str, Reading], values: Sequence[str] = (), missing: bool = True
    ) -> tuple[dict[str, Column], np.ndarray]:
        """Some columns by name, and others as one matrix of values."""

    def fail(self, row: int, column: str, reason: str) -> NoReturn:
        """Raise the error for a cell."""

    def line(self, row: int) -> int:
        """Where a row is in the file."""


class Parsed(NamedTuple):
    """The sequences of a table, with or without targets."""

    inputs: Ragged
    names: tuple[str, ...]
    channels: tuple[str, ...]
    targets: np.ndarray | Ragged | None
    labels: tuple[str, ...]
    time_step: float = 0.0

    @classmethod
    def of(cls, series: Series) -> Parsed:
        return cls(series.inputs, (), series.channels, series.targets, series.labels, series.time_step)

    def ordered(self, path: Path, channels: tuple[str, ...]) -> Parsed:
        """The same sequences with these channels in this order, if both have names."""
        if not channels or not self.channels or channels == self.channels:
            return self
        missing = [name for name in channels if name not in self.channels]
        if missing:
            there = ", ".join(self.channels)
            raise checks.InputError(f"{path} has no channel {missing[0]!r}; its channels are {there}.")
        places = [self.channels.index(name) for name in channels]
        return self._replace(inputs=Ragged(self.inputs.values[:, places], self.inputs.lengths), channels=channels)

    @property
    def series(self) -> Series:
        if self.targets is None:
            raise checks.InputError("A layout without targets is for predictions only.")
        return Series(self.inputs, self.targets, self.labels, self.channels, self.time_step)


def parse(table: Columnar, layout: FileLayout, targets: bool) -> Parsed:
    """The sequences of a table. If `targets`, the table must have targets; otherwise it may have them."""
    wide = layout.form == "wide" or (layout.form == "auto" and _looks_wide(table, layout))
    _check_columns(table, layout, targets, wide)
    return _wide(table, layout) if wide else _long(table, layout)


def _roles(table: Columnar, layout: FileLayout) -> tuple[str, str, tuple[str, ...]]:
    """The columns of the sequence, the time and the targets; empty if the table has none."""
    sequence = layout.sequence or ("sequence" if "sequence" in table.header else "")
    sequence = "" if layout.single and sequence not in table.header else sequence
    there = [name for name in ORDER if name in table.header and name not in layout.channels]
    if not layout.time and len(there) > 1:
        raise checks.InputError(f"{table.path} has columns 'time' and 'step'; keep the one that orders the rows.")
    targets = layout.targets or (("target",) if "target" in table.header and layout.targets is not None else ())
    return sequence, layout.time or (there[0] if there else ""), targets


def _channels(table: Columnar, layout: FileLayout) -> list[str]:
    if layout.channels:
        return list(layout.channels)
    return _measured(table, layout)


def _measured(table: Columnar, layout: FileLayout) -> list[str]:
    """The columns that are not the sequence, the time or a target, and do not number the rows."""
    sequence, time, targets = _roles(table, layout)
    rest = [name for name in table.header if name not in {sequence, time, *targets} and not _numbers_rows(table, name)]
    if not rest:
        raise checks.InputError(f"{table.path} has no channels: its only columns are {', '.join(table.header)}.")
    return rest


def _numbers_rows(table: Columnar, name: str) -> bool:
    """Whether a column has no name and counts the rows, as the index that pandas writes."""
    if name not in UNNAMED:
        return False
    cells = table.head(name)
    return any(cells == [str(first + n) for n in range(len(cells))] for first in (0, 1))


def _check_columns(table: Columnar, layout: FileLayout, targets: bool, wide: bool) -> None:
    sequence, time, _ = _roles(table, layout)
    chosen = {
        "sequence": (sequence,) if sequence or layout.single or wide else ("sequence",),
        "time": (layout.time,),
        "target": layout.targets or (("target",) if targets else ()),
        "channel": layout.channels,
    }
    if not targets and any(name not in table.header for name in chosen["target"]):
        chosen["target"] = ()
    usual = {*chosen["sequence"], *chosen["target"]}
    if usual == {"sequence", "target"} and not usual & set(table.header):
        text = f"{table.path} has no columns 'sequence' and 'target'; its columns are {', '.join(table.header)}."
        remedy = "Name them with --sequence-column and --target-column. To forecast a series, add --forecast STEPS."
        raise checks.InputError(f"{text} {remedy}")
    for role, names in chosen.items():
        for name in filter(None, names):
            _need(table, name, OPTIONS.get(role, "") if name == role else "")
    if layout.times in ("input", "resample") and not time and not wide:
        remedy = "Name the column with --time-column."
        checks.fail("times", "be auto or ignore for a file without a column of times", layout.times, remedy)
    both = {name for name in layout.channels if name in (sequence, time, *(layout.targets or ()))}
    if both:
        checks.fail("channels", "not have the column of sequences, times or targets", sorted(both)[0])


def _need(table: Columnar, name: str, option: str) -> None:
    if name not in table.header:
        remedy = checks.closest(name, table.header) or (f"Name it with {option}." if option else "")
        there = ", ".join(table.header)
        raise checks.InputError(f"{table.path} has no column {name!r}; its columns are {there}. {remedy}".rstrip())


# Long form


class _Rows(NamedTuple):
    """The rows of a table, grouped by sequence."""

    table: Columnar
    order: np.ndarray | None  # [rows] the row at each place; None if they are grouped already
    names: list[str]  # of the sequences
    lengths: np.ndarray  # [N]

    def sorted(self, values: np.ndarray) -> np.ndarray:
        return values if self.order is None else values[self.order]

    def row(self, place: int) -> int:
        return place if self.order is None else int(self.order[place])

    @property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.lengths) - self.lengths


def _long(table: Columnar, layout: FileLayout) -> Parsed:
    sequence, time, targets = _roles(table, layout)
    targets = tuple(name for name in targets if name in table.header)
    channels = _channels(table, layout)
    readings: dict[str, Reading] = {sequence: "texts"} if sequence else {}
    if time:
        readings[time] = "times"
    columns, values = _read(table, readings, targets, channels, layout)
    codes, names = columns[sequence] if sequence else Texts(np.zeros(len(values), dtype=np.int64), ["1"])
    times = columns[time] if time else None
    lengths = np.bincount(codes, minlength=len(names)).astype(np.int64)
    rows = _Rows(table, _order(table, time, codes, times), names, lengths)
    inputs = Ragged(rows.sorted(values), lengths)
    made = _targets(rows, [columns[name] for name in targets], targets, layout.per)
    parsed = Parsed(inputs, tuple(names) if sequence else (), tuple(channels), *made)
    return parsed if times is None else _timed(table, parsed, Ragged(rows.sorted(times), lengths), layout)


def _read(
    table: Columnar, readings: dict[str, Reading], targets: tuple[str, ...], channels: list[str], layout: FileLayout
) -> tuple[dict[str, Any], np.ndarray]:
    """The columns. A single target is read as numbers if its first cells are decimal numbers, and otherwise as text."""
    cells = [cell.replace(",", ".") for name in targets[:1] for cell in table.head(name)]
    numeric = all(number_or_none(cell) is not None for cell in cells)
    if len(targets) > 1 or (numeric and not all(INTEGER.fullmatch(cell) for cell in cells)):
        try:
            return table.read({**readings, **dict.fromkeys(targets, "numbers")}, channels, layout.missing)
        except checks.InputError:
            if len(targets) > 1:
                raise
    return table.read({**readings, **dict.fromkeys(targets, "texts")}, channels, layout.missing)


def _order(table: Columnar, time: str, codes: np.ndarray, times: np.ndarray | None) -> np.ndarray | None:
    """The rows by sequence, and within a sequence by time; None if they are in this order already."""
    steps = np.diff(codes)
    if (steps >= 0).all() and (times is None or (np.diff(times)[steps == 0] > 0).all()):
        return None
    if times is None:
        return np.argsort(codes, kind="stable")
    order = np.lexsort((times, codes))
    again = (np.diff(times[order]) == 0) & (np.diff(codes[order]) == 0)
    if again.any():
        row = int(order[again.argmax() + 1])
        numeric = number_or_none(table.head(time)[0]) is not None
        table.fail(row, time, f"{times[row]:g} is there twice in a sequence" if numeric else "the time is there twice")
    return order


def _targets(
    rows: _Rows, columns: list[np.ndarray | Texts], names: tuple[str, ...], per: Per
) -> tuple[np.ndarray | Ragged | None, tuple[str, ...]]:
    """The targets per sequence or per step, and the names of the classes."""
    if not columns:
        return None, ()
    flat = np.stack([rows.sorted(one.codes if isinstance(one, Texts) else one) for one in columns], axis=1)
    per_step = _per_step(rows, columns[0], names[0], flat, per)
    chosen = flat if per_step else flat[rows.starts]
    labels: tuple[str, ...] = ()
    if isinstance(columns[0], Texts):
        chosen, labels = _meaning(rows.table, names[0], columns[0], chosen[:, 0])
    else:
        chosen = chosen.astype(np.float32)
    return (Ragged(chosen, rows.lengths) if per_step else chosen), labels


def targets_of_rows(
    table: Columnar, columns: list[np.ndarray | Texts], names: tuple[str, ...]
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """The targets of a table whose rows are sequences, and the names of the classes."""
    count = len(columns[0].codes if isinstance(columns[0], Texts) else columns[0]) if columns else 0
    made, labels = _targets(_Rows(table, None, [], np.ones(count, dtype=np.int64)), columns, names, "series")
    assert not isinstance(made, Ragged)
    return made, labels


def _per_step(rows: _Rows, column: np.ndarray | Texts, name: str, flat: np.ndarray, per: Per) -> bool:
    """Whether the target is one per step: if it changes within all sequences, and these are several."""
    varies = (flat != np.repeat(flat[rows.starts], rows.lengths, axis=0)).any(axis=1)
    if per == "step" or not varies.any():
        return per == "step"
    owner = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    changing = np.bincount(owner[varies], minlength=len(rows.lengths)) > 0
    if not (per == "auto" and changing[rows.lengths > 1].all() and changing.sum() > 1):
        at = int(varies.argmax())
        _fail_differs(rows, column, name, flat[:, 0], at, int(owner[at]), per)
    return True


def _fail_differs(
    rows: _Rows, column: np.ndarray | Texts, name: str, flat: np.ndarray, at: int, sequence: int, per: Per
) -> NoReturn:
    begin = int(rows.starts[sequence])
    texts = column.names if isinstance(column, Texts) else None
    first, other = (repr(texts[int(flat[n])]) if texts else f"{flat[n]:g}" for n in (begin, at))
    line = rows.table.line(rows.row(begin))
    remedy = ". If every step has a target, add --targets step" if per == "auto" else ""
    reason = f"{other} differs from {first} on line {line}, in the same sequence {rows.names[sequence]!r}{remedy}"
    rows.table.fail(rows.row(at), name, reason)


def _meaning(table: Columnar, column: str, texts: Texts, codes: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Classes or values, depending on the texts, and the names of the classes."""
    values = [number_or_none(text) for text in texts.names]
    for code, value in enumerate(values):
        if value is not None and not abs(value) <= LARGEST:
            row = int((texts.codes == code).argmax())
            table.fail(row, column, f"{texts.names[code]!r} is not a finite number")
    if None in values or all(INTEGER.fullmatch(text) for text in texts.names):
        labels = ordered_labels(texts.names)
        places = {label: place for place, label in enumerate(labels)}
        return np.array([places[text] for text in texts.names], dtype=np.int64)[codes], labels
    return np.array(values, dtype=np.float32)[codes][:, None], ()


# Times


def _timed(table: Columnar, parsed: Parsed, times: Ragged, layout: FileLayout) -> Parsed:
    """What irregular times become."""
    inside = np.ones(len(times.values), dtype=bool)
    inside[times.starts[:-1]] = False  # the first step of a sequence has none before it
    since = np.diff(times.values, prepend=times.values[:1])
    steps = since[inside]
    if layout.times == "resample":
        step = layout.time_step or (float(np.median(steps)) if len(steps) else 1.0)
        return _resampled(table, parsed, times, step)
    if layout.times == "ignore" or (layout.times == "auto" and _regular(steps)):
        return parsed
    channel = np.where(inside, since, 0.0).astype(np.float32)[:, None]
    inputs = Ragged(np.concatenate([parsed.inputs.values, channel], axis=1), parsed.inputs.lengths)
    return parsed._replace(inputs=inputs, channels=(*parsed.channels, SINCE))


def _regular(steps: np.ndarray) -> bool:
    """Whether all steps are equal, or are months, quarters or years in seconds."""
    if not len(steps):
        return True
    median = float(np.median(steps))
    if (np.abs(steps - median) <= UNEVEN * median).all():
        return True
    return any(((low * DAY <= steps) & (steps <= high * DAY)).all() for low, high in CALENDAR)


def _resampled(table: Columnar, parsed: Parsed, times: Ragged, step: float) -> Parsed:
    """The sequences at equal steps: values between their neighbours in time, classes of the nearest step."""
    inputs, targets = [], []
    counts = [1 + int((times[n][-1] - times[n][0]) / step + 1e-9) for n in range(len(times))]
    total = sum(counts)
    if total > 20 * len(times.values) + 1000:
        rule = f"give at most 20 times as many steps as {table.path} has"
        checks.fail("times", rule, f"{total} steps of {step:g}", "Choose --times input or ignore.")
    for n, count in enumerate(counts):
        own = times[n]
        grid = own[0] + np.arange(count) * step
        inputs.append(_between(grid, own, parsed.inputs[n]))
        if isinstance(parsed.targets, Ragged):
            values = parsed.targets[n]
            nearest = np.clip(np.searchsorted(own, grid - step / 2), 0, len(own) - 1)
            targets.append(values[nearest] if values.dtype.kind == "i" else _between(grid, own, values))
    made = Ragged.of(targets) if targets else parsed.targets
    return parsed._replace(inputs=Ragged.of(inputs), targets=made, time_step=step)


def _between(grid: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:  # [steps, channels] float32
    return np.stack([np.interp(grid, times, channel) for channel in values.T], axis=1).astype(np.float32)


# Wide form


def _looks_wide(table: Columnar, layout: FileLayout) -> bool:
    """Whether the table has no times, only numbered columns beside the targets, and each sequence once."""
    sequence, time, targets = _roles(table, layout)
    if time or (layout.channels and set(layout.channels) <= set(table.header)):
        return False
    names = [name for name in table.header if name not in {sequence, *targets} and not _numbers_rows(table, name)]
    numbered, rows = _numbered(names), table.head(sequence) if sequence in table.header else []
    if layout.size and numbered and (len(names) == layout.size or len(numbered) != layout.size):
        return False
    return len(names) > 2 and numbered is not None and len(set(rows)) == len(rows)


def _numbered(names: Iterable[str]) -> dict[str, list[str]] | None:
    """The columns of each channel in the order of their numbers; None if they are not numbered one after the other."""
    channels: dict[str, dict[int, str]] = {}
    for name in names:
        match = NUMBERED.fullmatch(name)
        if not match or len(match[2]) > 9 or int(match[2]) in channels.setdefault(match[1], {}):
            return None
        channels[match[1]][int(match[2])] = name
    orders = [sorted(columns) for columns in channels.values()]
    if not orders or any(order != list(range(order[0], order[0] + len(order))) for order in orders):
        return None
    if len({len(order) for order in orders}) > 1 or len(orders[0]) < 2:
        return None
    return {name: [columns[n] for n in sorted(columns)] for name, columns in channels.items()}


def _wide(table: Columnar, layout: FileLayout) -> Parsed:
    sequence, _, targets = _roles(table, layout)
    targets = tuple(name for name in targets if name in table.header)
    others = _measured(table, layout)
    channels = _numbered(others) or {"": others}
    if layout.channels and set(layout.channels) <= set(channels):
        channels = {name: channels[name] for name in layout.channels}
    flat = [name for columns in channels.values() for name in columns]
    readings: dict[str, Reading] = {sequence: "texts"} if sequence else {}
    columns, values = _read(table, readings, targets, flat, replace(layout, missing=True))
    values = values.reshape(len(values), len(channels), -1).transpose(0, 2, 1)  # [N, T, channels]
    lengths = _known(values)
    _check_wide(table, values, lengths, flat, layout.missing)
    inputs = Ragged(values[np.arange(values.shape[1]) < lengths[:, None]], lengths)
    made = targets_of_rows(table, [columns[name] for name in targets], targets)
    names = tuple(columns[sequence].names[n] for n in columns[sequence].codes) if sequence else ()
    known = tuple(name.rstrip("_ .-") for name in channels)
    return Parsed(inputs, names, known if all(known) and len(set(known)) == len(known) else (), *made)


def _known(values: np.ndarray) -> np.ndarray:  # [N] int64
    """The length of each sequence: missing values at the end are padding."""
    there = ~np.isnan(values).all(axis=2)
    return np.where(there.any(axis=1), values.shape[1] - there[:, ::-1].argmax(axis=1), 0).astype(np.int64)


def _check_wide(table: Columnar, values: np.ndarray, lengths: np.ndarray, columns: list[str], missing: bool) -> None:
    if not lengths.all():
        row = int((lengths == 0).argmax())
        table.fail(row, columns[0], "the row has no values")
    gaps = np.isnan(values) & (np.arange(values.shape[1]) < lengths[:, None])[:, :, None]
    if gaps.any() and not missing:
        row, step, channel = np.argwhere(gaps)[0]
        table.fail(int(row), columns[channel * values.shape[1] + step], f"the value is missing. {ALLOW}")
