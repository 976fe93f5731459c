"""People's own sequences, to generate more like them: lines of text, or series of values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.formats.sequences import FileLayout, Form, Times
from autapse.data.formats.table import SequenceFile, read_sequences
from autapse.data.formats.timeseries import ordered_labels
from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Signature, WrittenShape, dense
from autapse.tasks.generation import Generation, nothing
from autapse.tasks.own import check_count
from autapse.tasks.series import Stamp, absolute, stamp
from autapse.tasks.stored import Examples, Parts, Stored, held_out
from autapse.tasks.text_file import Units, is_text, numbered, read_text, vocabulary_of

SEVERAL = "--sequence-column NAME says which series a row belongs to; --length 50 cuts one long series into pieces."
NOTHING = "nothing"
LONGEST = 5000
Given = np.ndarray | Ragged


@dataclass(frozen=True, eq=False)
class Written:
    """Sequences, and what they depend on.

    Args:
        targets: The sequences: symbols, int64, or values with steps of shape [D], float32.
        inputs: What they depend on: [N, 1, D] for a vector, ragged for a sequence.
        names: The names of the symbols, or of the columns of values.
        labels: The names of the classes that sequences depend on; empty if they depend on numbers or on nothing.
        given: The names of the columns that they depend on.
    """

    targets: Ragged
    inputs: Given
    names: tuple[str, ...]
    labels: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, index: np.ndarray) -> Written:
        """Some of the sequences."""
        some = self.inputs.take(index) if isinstance(self.inputs, Ragged) else self.inputs[index]
        return replace(self, targets=self.targets.take(index), inputs=some)


@dataclass(frozen=True, kw_only=True)
class OwnSequences(Generation, Stored):
    """Your own sequences, to generate more like them: autapse run names.txt, or autapse run my.csv --generate.

    Args:
        path: A text file (.txt) with one sequence per line; or a file with series of values, as for `autapse run FILE`:
            a table (.csv, .tsv, .parquet), arrays (.npz), or .ts.
        test: The file with the test sequences. Without it, a share of the sequences is held out.
        test_share: Share of the sequences in the test set, if there is no test file; 0 for no test set.
        validation: Share of the training sequences that is held out for validation; 0 trains on all of them.
        units: Text: what a symbol is, a character or a word.
        min_count: Text by words: words that occur less often in the training lines are written as <unk>.
        given: Values: the columns that a sequence depends on: one column of classes, or columns of numbers, with one
            value for the whole sequence or one for each step. By default `target`, if there is one; `nothing` for none.
        length: Values: cut each series into pieces of this many steps.
        sequence_column: Values: the column with the series of each row; by default `sequence`, if there is one.
        time_column: Values: the column with the time of each row; by default `time` or `step`, if there is one.
        channels: Values: the columns to generate; by default all others.
        form: Values: whether a table has one row per step (long) or one row per series (wide).
        times: Values: what irregular times become: the time since the step before as a further column (input), values
            at equal steps (resample), or nothing (ignore). With auto, a column.
    """

    path: str
    test: str | None = None
    test_share: float = 0.1
    validation: float = 0.1
    units: Units = "characters"
    min_count: int = 2
    given: tuple[str, ...] = ()
    length: int | None = None
    sequence_column: str | None = None
    time_column: str | None = None
    channels: tuple[str, ...] = ()
    form: Form = "auto"
    times: Times = "auto"

    name: ClassVar[str] = "generate"
    summary: ClassVar[str] = "generate sequences like your own: autapse run my.txt, autapse run my.csv --generate"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("test_share", self.test_share, low=0.0, high=0.9)
        checks.one_of("units", self.units, get_args(Units))
        checks.integer("min_count", self.min_count, minimum=1)
        checks.one_of("form", self.form, get_args(Form))
        checks.one_of("times", self.times, get_args(Times))
        if self.length is not None:
            checks.integer("length", self.length, minimum=2)
        for name in ("given", "channels"):
            value: Any = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        self._check_applies()
        object.__setattr__(self, "path", absolute(self.path))  # the run may be loaded from another folder
        if self.test is not None:
            object.__setattr__(self, "test", absolute(self.test))

    @property
    def is_text(self) -> bool:
        """Whether the sequences are lines of text."""
        return is_text(self.path)

    def _check_applies(self) -> None:
        """Raise an error for an option that the file does not have."""
        for_values = ("given", "length", "sequence_column", "time_column", "channels", "form", "times")
        for name in for_values if self.is_text else ("units", "min_count"):
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                what = "series of values" if self.is_text else "text files (.txt)"
                checks.fail(name, f"be omitted: it is for {what}", getattr(self, name))

    # What is read ---------------------------------------------------------------------------------------------------

    def both(self) -> tuple[Written, Written]:
        """Training and test sequences."""
        files = tuple(Path(path) for path in (self.path, self.test) if path is not None)
        read = _text if self.is_text else _values
        both = read(self, *(stamp(file) for file in files))
        remedy = "" if self.is_text else SEVERAL
        check_count(both, 0.0 if self.test else self.test_share, self.validation, self.path, remedy)
        return both

    def parts(self) -> Parts:
        train, test = (Examples(part.inputs, part.targets) for part in self.both())
        return Parts(train, test)

    def floor(self, data: Data) -> None:
        return None

    def signature(self) -> Signature:
        train, test = self.both()
        lengths = np.concatenate([train.targets.lengths, test.targets.lengths])
        shape: dict[str, Any] = {"depends": _depends(train), "longest": int(lengths.max())}
        shape |= {"one_length": bool(lengths.min() == lengths.max()), "separator": "" if self.units[0] == "c" else " "}
        known: dict[str, Any] = {"kind": self.kind, "input_size": dense(train.inputs).shape[-1]}
        if self.is_text:
            written = WrittenShape(**shape)
            return Signature(**known, output_size=len(train.names), classes=train.names, written=written)
        values = train.targets.values
        binary = _binary(values)
        mean, scale = _standardisation(values[:, : values.shape[1] - binary])
        shape |= {"values": values.shape[1] - binary, "binary": binary, "mean": mean, "scale": scale}
        written = WrittenShape(**shape, columns=train.names, gaps=bool(np.isnan(values).any()))
        known |= {"vocabularies": (train.labels,)} if train.labels else {}
        if known["input_size"] and not train.labels:
            known["mean"], known["scale"] = _standardisation(dense(train.inputs).reshape(-1, known["input_size"]))
        return Signature(**known, output_size=values.shape[1], channels=train.given, written=written)

    def layout(self) -> FileLayout:
        """How to read a table."""
        return FileLayout(
            sequence=self.sequence_column or "",
            time=self.time_column or "",
            targets=None if self.given == (NOTHING,) else self.given,
            channels=self.channels,
            form=self.form,
            times=self.times,
            missing=True,
            single=not self.sequence_column,
        )


def _depends(written: Written) -> Literal["nothing", "vector", "sequence"]:
    if isinstance(written.inputs, Ragged):
        return "sequence"
    return "vector" if written.inputs.shape[-1] else "nothing"


@lru_cache(maxsize=4)
def _text(task: OwnSequences, *stamps: Stamp) -> tuple[Written, Written]:
    lines = read_text(Path(task.path), task.units)
    if task.test is None:
        held = held_out(Examples(nothing(len(lines)), np.zeros((len(lines), 1))), task.test_share, seed=0)
        parts = [[line for line, out in zip(lines, held, strict=True) if out == test] for test in (False, True)]
    else:
        parts = [lines, read_text(Path(task.test), task.units)]
    known = vocabulary_of(parts[0], parts[1:], task.units, task.min_count)
    names = tuple(known.to_text().removesuffix("\n").split("\n"))
    train, test = (Written(_checked(task, numbered(part, known)), nothing(len(part)), names) for part in parts)
    return train, test


@lru_cache(maxsize=4)
def _values(task: OwnSequences, *stamps: Stamp) -> tuple[Written, Written]:
    """The series of the files, with binary columns last."""
    files = [read_sequences(Path(path), task.layout()) for path in (task.path, task.test) if path is not None]
    labels = _labels([file.targets for file in files])
    first, *rest = [_written(task, file, labels) for file in files]
    if rest and (rest[0].names, rest[0].given) != (first.names, first.given):
        checks.fail(str(task.test), f"have the columns {', '.join(first.names)}", ", ".join(rest[0].names))
    binary = [n for n, column in enumerate(first.targets.values.T) if _binary(column[:, None])]
    order = [*(n for n in range(first.targets.values.shape[1]) if n not in binary), *binary]
    first, *rest = [_ordered(part, order) for part in (first, *rest)]
    if rest:
        return first, rest[0]
    held = held_out(Examples(nothing(len(first.targets)), np.zeros((len(first.targets), 1))), task.test_share, seed=0)
    return first.take(np.flatnonzero(~held)), first.take(np.flatnonzero(held))


def _written(task: OwnSequences, file: SequenceFile, labels: tuple[str, ...]) -> Written:
    values = file.inputs.values
    names = file.channels or tuple(f"x{n + 1}" for n in range(values.shape[1]))
    empty = np.isnan(values).all(axis=0)
    if empty.any():
        raise checks.InputError(f"{task.path}: column {names[int(empty.argmax())]!r} has no values. Leave it out.")
    inputs = _given(file.targets, labels, len(file.inputs))
    targets = file.inputs
    if task.length is not None:
        targets, inputs = _pieces(task, targets, inputs, task.length)
    given = task.given or (("target",) if file.targets is not None else ())
    return Written(_checked(task, targets), inputs, names, labels, () if given == (NOTHING,) else given)


def _labels(targets: list[Any]) -> tuple[str, ...]:
    """The names of the classes, in an order; empty if there are none."""
    names: set[str] = set()
    for part in targets:
        if isinstance(part, list):
            flat = [one for row in part for one in ([row] if isinstance(row, str) else row)]
            names |= {one for one in flat if isinstance(one, str)}
    return ordered_labels(names) if names else ()


def _given(targets: Any, labels: tuple[str, ...], count: int) -> Given:
    """What sequences depend on, from the targets of a file: classes or values, per sequence or per step."""
    if targets is None:
        return nothing(count)
    places = {label: place for place, label in enumerate(labels)}
    if isinstance(targets, np.ndarray):
        return targets.reshape(count, 1, -1).astype(np.float32)
    if isinstance(targets[0], str):
        return np.array([places[label] for label in targets], dtype=np.int64).reshape(count, 1, 1)
    if labels:
        return Ragged.of([np.array([[places[label]] for label in row], dtype=np.int64) for row in targets])
    return Ragged.of([np.asarray(row, dtype=np.float32).reshape(len(row), -1) for row in targets])


def _pieces(task: OwnSequences, targets: Ragged, inputs: Given, length: int) -> tuple[Ragged, Given]:
    """Each series cut into pieces of one length; what is left at its end is dropped."""
    owners = np.repeat(np.arange(len(targets)), targets.lengths // length)
    if not len(owners):
        checks.fail("length", f"be at most {int(targets.lengths.max())}, the longest series of {task.path}", length)
    firsts = np.concatenate([np.arange(n // length) * length for n in targets.lengths])

    def cut(series: Ragged) -> Ragged:
        places = zip(owners.tolist(), firsts.tolist(), strict=True)
        return Ragged.of([series[n][first : first + length] for n, first in places])

    return cut(targets), cut(inputs) if isinstance(inputs, Ragged) else inputs[owners]


def _ordered(part: Written, order: list[int]) -> Written:
    values = np.ascontiguousarray(part.targets.values[:, order], dtype=np.float32)
    return replace(part, targets=Ragged(values, part.targets.lengths), names=tuple(part.names[n] for n in order))


def _binary(values: np.ndarray) -> int:  # [steps, D]
    """How many columns have only the values 0 and 1, both of them."""
    return sum(set(np.unique(column[~np.isnan(column)])) == {0.0, 1.0} for column in values.T)


def _standardisation(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:  # [steps, D]
    """Mean and standard deviation of each column, without missing values. A constant column has scale 1."""
    columns = [column[~np.isnan(column)].astype(np.float64) for column in values.T]
    scales = [float(column.std()) for column in columns]
    return tuple(float(column.mean()) for column in columns), tuple(scale or 1.0 for scale in scales)


def _checked(task: OwnSequences, targets: Ragged) -> Ragged:
    """Refuse sequences that are too long to be generated as a whole."""
    longest = int(targets.lengths.max(initial=0))
    if longest > LONGEST:
        remedy = "Use shorter lines." if task.is_text else "Cut the series into pieces with --length 200."
        checks.fail(task.path, f"have sequences of at most {LONGEST} steps", longest, remedy)
    return targets
