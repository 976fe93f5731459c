"""Read the user's own data from .csv or .npz.

.csv: a header, then one row per step. Column `sequence` is the sequence that a row belongs to. Column `target` is the
target of the sequence, the same in all its rows. The optional column `time` or `step` gives the order of the rows.
Every other column is a channel. If all targets are integers or any is text, they are classes; otherwise values.

.npz: `inputs` [N, T, channels] or [N, T]; `targets` [N] integers or text for classes, [N] or [N, K] floats for values
to predict; and, if the sequences differ in length, `lengths` [N]. Steps after the length are ignored.

For predictions, `read_sequences` also reads such files without targets, and two more kinds. .npy: [N, T, channels], or
[T, channels] for one sequence. .csv without a header: one sequence, one channel per column.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from autapse import checks
from autapse.data.decompress import DECOMPRESSORS
from autapse.data.formats import npy
from autapse.data.formats.timeseries import LARGEST, Series, number_or_none, ordered_labels, read_ts, suffix
from autapse.data.ragged import Ragged, dense
from autapse.data.reading import read_bytes

ORDER = ("time", "step")
INTEGER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, eq=False)
class SequenceFile:
    """Sequences to predict."""

    inputs: Ragged  # of [steps, channels] float32
    names: tuple[str, ...] = ()  # of the sequences, if the file has names
    targets: list[Any] | np.ndarray | None = None  # per sequence: the name of its class, one per step, or values


def read_series(path: Path) -> Series:
    """Series with targets from a .ts, .tsv, .csv or .npz file."""
    reader = READERS.get(suffix(path))
    if reader is None or (suffix(path) == ".npz" and path.suffix.lower() != ".npz"):
        accepted = "end in .ts, .tsv or .csv, optionally followed by .gz, .bz2 or .xz; or in .npz"
        checks.fail("The file's name", accepted, str(path))
    return reader(path)


def read_sequences(path: Path) -> SequenceFile:
    """Sequences from a .ts, .tsv, .csv, .npz or .npy file, with or without targets."""
    plain = {".npy": _npy_sequences, ".npz": _npz_sequences, ".csv": _csv_sequences}
    kind = suffix(path)
    if kind not in (*READERS, *plain) or (kind in (".npy", ".npz") and path.suffix in DECOMPRESSORS):
        accepted = "end in .ts, .tsv or .csv, optionally followed by .gz, .bz2 or .xz; or in .npy or .npz"
        checks.fail("The file's name", accepted, str(path))
    return plain[kind](path) if kind in plain else _labelled(read_series(path))


def _labelled(series: Series, names: tuple[str, ...] = ()) -> SequenceFile:
    targets = dense(series.targets)
    return SequenceFile(series.inputs, names, [series.labels[place] for place in targets] if series.labels else targets)


def read_csv(path: Path) -> Series:
    """Read a .csv file with one row per step; the docstring of this module describes the columns."""
    table = _load(path, ("sequence", "target"))
    inputs, members = _gathered(table)
    return Series(inputs, *_meaning(table, _targets(table, members)))


def _csv_sequences(path: Path) -> SequenceFile:
    rows = _rows(path)
    if not rows:
        raise checks.InputError(f"{path} is empty.")
    first = rows[0][1]
    if "sequence" not in first and any(number_or_none(cell) is not None for cell in first):  # no header
        table = _table(path, [(0, [f"column {n}" for n in range(1, len(first) + 1)]), *rows])
        values = np.stack([table.numbers(name) for name in table.header], axis=1).astype(np.float32)
        return SequenceFile(Ragged.of([values]))
    table = _load(path, ("sequence",))
    inputs, members = _gathered(table)
    if "target" not in table.header:
        return SequenceFile(inputs, tuple(members))
    return _labelled(Series(inputs, *_meaning(table, _targets(table, members))), tuple(members))


def _gathered(table: _Table) -> tuple[Ragged, dict[str, list[int]]]:
    """The sequences of a table, and the rows of each sequence by its name."""
    path, order = table.path, _order(table)
    channels = [name for name in table.header if name not in {"sequence", "target", order}]
    if not channels:
        raise checks.InputError(f"{path} has no channels: its only columns are {', '.join(table.header)}.")
    values = np.stack([table.numbers(name) for name in channels], axis=1).astype(np.float32)
    members: dict[str, list[int]] = {}
    for row, name in enumerate(table.column("sequence")):
        members.setdefault(name, []).append(row)
    steps = None if order is None else table.numbers(order)
    return Ragged.of([values[_in_order(table, rows, steps)] for rows in members.values()]), members


@dataclass(frozen=True)
class _Table:
    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]  # line number of each row in the file

    def column(self, name: str) -> list[str]:
        """The cells of column `name`; an empty cell is an error."""
        place = self.header.index(name)
        cells = [row[place] for row in self.rows]
        if "" in cells:
            self.fail(cells.index(""), name, "the cell is empty")
        return cells

    def numbers(self, name: str) -> np.ndarray:  # [rows] float64
        """The cells of column `name` as finite numbers."""
        cells = self.column(name)
        values = [number_or_none(cell) for cell in cells]
        for row, value in enumerate(values):
            if value is None or not abs(value) <= LARGEST:
                self.fail(row, name, f"{cells[row]!r} is not a finite number")
        return np.array(values, dtype=np.float64)

    def fail(self, row: int, column: str, reason: str) -> NoReturn:
        raise checks.InputError(f"{self.path}, line {self.lines[row]}, column {column!r}: {reason}.")


def _load(path: Path, needed: Sequence[str]) -> _Table:
    """A table with a header that has the needed columns."""
    rows = _rows(path)
    if len(rows) < 2:
        raise checks.InputError(f"{path} has no rows below a header.")
    _check_header(path, rows[0][1], needed)
    return _table(path, rows)


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, with their line numbers."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise checks.InputError(f"{path}, byte {error.start}: it is not UTF-8 text.") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise checks.InputError(f"{path}, line {reader.line_num}: {error}.") from None


def _table(path: Path, rows: list[tuple[int, list[str]]]) -> _Table:
    header, first = rows[0][1], "header" if rows[0][0] else "first line"
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise checks.InputError(f"{path}, line {line}: it has {len(row)} cells, but the {first} has {len(header)}.")
    return _Table(path, header, [row for _, row in rows[1:]], [line for line, _ in rows[1:]])


def _check_header(path: Path, header: list[str], columns: Sequence[str]) -> None:
    for needed in columns:
        if needed not in header:
            remedy = checks.closest(needed, header)
            there = ", ".join(header)
            raise checks.InputError(f"{path} has no column {needed!r}; its columns are {there}. {remedy}".rstrip())
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise checks.InputError(f"{path}, line 1: column {twice[0]!r} occurs {header.count(twice[0])} times.")


def _order(table: _Table) -> str | None:
    there = [name for name in ORDER if name in table.header]
    if len(there) > 1:
        raise checks.InputError(f"{table.path} has columns 'time' and 'step'; keep the one that orders the rows.")
    return there[0] if there else None


def _in_order(table: _Table, rows: list[int], steps: np.ndarray | None) -> np.ndarray:
    """The rows of one sequence by their time, or as they come."""
    found = np.array(rows)
    if steps is None:
        return found
    ordered = found[np.argsort(steps[found], kind="stable")]
    repeated = np.flatnonzero(np.diff(steps[ordered]) == 0)
    if len(repeated):
        name = _order(table) or ""
        table.fail(int(ordered[repeated[0] + 1]), name, f"{steps[ordered[repeated[0]]]:g} is there twice in a sequence")
    return ordered


def _targets(table: _Table, members: dict[str, list[int]]) -> dict[int, str]:
    """The target of each sequence, by the first row of the sequence."""
    cells = table.column("target")
    for name, rows in members.items():
        for row in rows:
            if cells[row] != cells[rows[0]]:
                reason = f"{cells[row]!r} differs from {cells[rows[0]]!r} on line {table.lines[rows[0]]}"
                table.fail(row, "target", f"{reason}, in the same sequence {name!r}")
    return {rows[0]: cells[rows[0]] for rows in members.values()}


def _meaning(table: _Table, targets: dict[int, str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The targets as classes or values, depending on their texts, and the names of the classes."""
    texts = list(targets.values())
    values = {row: number_or_none(text) for row, text in targets.items()}
    for row, value in values.items():
        if value is not None and not abs(value) <= LARGEST:
            table.fail(row, "target", f"{targets[row]!r} is not a finite number")
    if None in values.values() or all(INTEGER.fullmatch(text) for text in texts):
        return _classes(texts)
    return np.array(list(values.values()), dtype=np.float32)[:, None], ()


def _classes(texts: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    labels = ordered_labels(texts)
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places[text] for text in texts], dtype=np.int64), labels


def read_npz(path: Path) -> Series:
    """Read a .npz file; the docstring of this module describes its arrays."""
    arrays = _arrays(path, ("inputs", "targets"))
    inputs = _numpy_inputs(path, arrays)
    return Series(inputs, *_numpy_targets(path, arrays["targets"], len(inputs)))


def _npz_sequences(path: Path) -> SequenceFile:
    arrays = _arrays(path, ("inputs",))
    inputs = _numpy_inputs(path, arrays)
    if "targets" not in arrays:
        return SequenceFile(inputs)
    return _labelled(Series(inputs, *_numpy_targets(path, arrays["targets"], len(inputs))))


def _npy_sequences(path: Path) -> SequenceFile:
    array = npy.read_npy(read_bytes(path), path)
    if array.ndim not in (2, 3):
        _fail(path, "the array", "be numbers of shape [N, T, channels] or [T, channels]", array)
    return SequenceFile(_numpy_inputs(path, {"inputs": array if array.ndim == 3 else array[None]}))


def _numpy_inputs(path: Path, arrays: dict[str, np.ndarray]) -> Ragged:
    inputs = arrays["inputs"]
    if inputs.ndim not in (2, 3) or 0 in inputs.shape or inputs.dtype.kind not in "fiub":
        _fail(path, "inputs", "be numbers of shape [N, T, channels] or [N, T]", inputs)
    inputs = inputs.reshape(*inputs.shape[:2], -1)
    lengths = _lengths(path, arrays.get("lengths"), inputs)
    there = np.arange(inputs.shape[1]) < lengths[:, None]  # [N, T]
    wrong = there & ~(np.abs(inputs.astype(np.float64)) <= LARGEST).all(axis=2)
    if wrong.any():
        n, t = np.argwhere(wrong)[0]
        raise checks.InputError(f"{path}, inputs[{n}, {t}]: {inputs[n, t].tolist()} has a value that is not finite.")
    return Ragged(inputs[there].astype(np.float32), lengths)


def _arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    return npy.read_npz(read_bytes(path), path, names, ("inputs", "targets", "lengths"))


def _lengths(path: Path, lengths: np.ndarray | None, inputs: np.ndarray) -> np.ndarray:  # [N] int64
    count, steps = inputs.shape[:2]
    if lengths is None:
        return np.full(count, steps, dtype=np.int64)
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
        _fail(path, "lengths", f"be integers of shape [N] = ({count},)", lengths)
    wrong = (lengths < 1) | (lengths > steps)
    if wrong.any():
        n = int(wrong.argmax())
        raise checks.InputError(f"{path}, lengths[{n}]: {lengths[n]} is not one of 1 to {steps}.")
    return lengths.astype(np.int64)


def _numpy_targets(path: Path, targets: np.ndarray, count: int) -> tuple[np.ndarray, tuple[str, ...]]:
    if targets.dtype.kind == "f" and targets.ndim in (1, 2) and len(targets) == count and targets.size:
        wrong = np.argwhere(~(np.abs(targets) <= LARGEST))
        if len(wrong):
            place = ", ".join(str(i) for i in wrong[0])
            raise checks.InputError(f"{path}, targets[{place}]: {targets[tuple(wrong[0])]} is not a finite number.")
        return targets.reshape(count, -1).astype(np.float32), ()
    if targets.dtype.kind not in "iubUS" or targets.shape != (count,):
        rule = f"be integers or text of shape [N] = ({count},), or floats of shape [N] or [N, K]"
        _fail(path, "targets", rule, targets)
    try:
        text = np.char.decode(targets, "utf-8") if targets.dtype.kind == "S" else targets
        return _classes([str(target) for target in text.tolist()])
    except (ValueError, SystemError) as error:  # raised by numpy for codes that are not characters
        raise checks.InputError(f"{path}: targets must be UTF-8 text ({error}).") from None


def _fail(path: Path, name: str, rule: str, array: np.ndarray) -> NoReturn:
    raise checks.InputError(f"{path}: {name} must {rule}; got {array.dtype} of shape {array.shape}.")


READERS: dict[str, Callable[[Path], Series]] = {".ts": read_ts, ".tsv": read_ts, ".csv": read_csv, ".npz": read_npz}
