"""The formats of the UEA and UCR archive: .ts with a header, and .tsv with one labelled series per line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autapse import checks
from autapse.data.decompress import DECOMPRESSORS
from autapse.data.ragged import Ragged, alike, dense
from autapse.data.reading import damaged, read_bytes, whole_number

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Series:
    """N series with a target each or per step: a class, or K values to predict."""

    inputs: Ragged  # of [steps, channels] float32
    targets: np.ndarray | Ragged  # [N] int64 indices into `labels`, or [N, K] float32; per step: ragged
    labels: tuple[str, ...]  # the names of the classes; empty for regression
    channels: tuple[str, ...] = ()  # their names, if they have names
    time_step: float = 0.0  # the step that they were resampled to; 0 if they were not

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, index: np.ndarray) -> Series:
        """The series at `index`, in this order."""
        targets = self.targets.take(index) if isinstance(self.targets, Ragged) else self.targets[index]
        return replace(self, inputs=self.inputs.take(index), targets=targets)


def read_ts(path: Path, missing: bool = False) -> Series:
    """Read a .ts or .tsv file, compressed or not.

    If `missing`, missing values are NaN; otherwise they are interpolated between their neighbours in time.
    Classes are in the order of the header; they are sorted if no header names them.
    """
    lines = _lines(path)
    if suffix(path) == ".tsv":
        return _series(path, *_columns(_tab_separated(path, lines, missing)), names=None)
    header = _header(path, lines)
    inputs, targets = _columns(_colon_separated(path, lines, header, missing))
    if header.regression:
        return Series(_ragged(path, inputs), np.array([[float(t)] for t in targets], dtype=np.float32), ())
    return _series(path, inputs, targets, header.labels)


def share_labels(first: Series, second: Series, names: str) -> tuple[Series, Series]:
    """The same series with a common order of classes: that of the first, or sorted if the second has other classes."""
    channels = first.inputs.values.shape[1], second.inputs.values.shape[1]
    if channels[0] != channels[1]:
        raise checks.InputError(f"{names} differ in their number of channels: {channels[0]} and {channels[1]}.")
    if bool(first.labels) != bool(second.labels):
        raise checks.InputError(
            f"{names} do not fit together: the targets of one are classes, those of the other are values."
        )
    own = set(second.labels) - set(first.labels)
    labels = ordered_labels([*first.labels, *own]) if own else first.labels
    return _relabelled(first, labels), _relabelled(second, labels)


def _relabelled(series: Series, labels: tuple[str, ...]) -> Series:
    if not labels or labels == series.labels:
        return series
    places = np.array([labels.index(label) for label in series.labels], dtype=np.int64)
    return replace(series, targets=alike(series.targets, places[dense(series.targets)]), labels=labels)


def ordered_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Every name once: sorted by value if all are numbers, otherwise in alphabetical order.

    >>> ordered_labels(["10", "9", "10"]), ordered_labels(["walk", "9"])
    (('9', '10'), ('9', 'walk'))
    """
    distinct = sorted(set(names))
    values = {name: number_or_none(name) for name in distinct}
    numeric = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
    return tuple(sorted(distinct, key=numeric.__getitem__) if len(numeric) == len(distinct) else distinct)


def number_or_none(text: str) -> float | None:
    """`text` as a float; None if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return None


def suffix(path: Path) -> str:
    """The suffix of a file in lower case, without the suffix of its compression."""
    return (Path(path.stem) if path.suffix in DECOMPRESSORS else path).suffix.lower()


@dataclass(frozen=True)
class _Header:
    begin: int  # number of lines before the data
    dimensions: int | None
    equal: bool  # all series have the same length
    length: int | None
    regression: bool
    labels: tuple[str, ...] | None  # None: take them from the data


_Row = tuple[np.ndarray, str]  # one series [steps, channels] and its target
_Line = tuple[int, str]  # line number, counted from 1, and text


def _lines(path: Path) -> list[_Line]:
    """The lines that are neither empty nor comments."""
    text = read_bytes(path).decode("utf-8-sig", errors="replace")
    numbered = ((number, line.strip("\r\n ")) for number, line in enumerate(text.split("\n"), start=1))
    return [(number, line) for number, line in numbered if line and not line.startswith("#")]


def _header(path: Path, lines: list[_Line]) -> _Header:
    """The header: the lines from the first one to @data. Unknown tags are ignored, because archives add their own."""
    tags: dict[str, tuple[int, list[str]]] = {}
    begin = next((n for n, (_, line) in enumerate(lines) if line.lower() == "@data"), len(lines))
    for number, line in lines[:begin]:
        if not line.startswith("@"):
            damaged(
                path, f"line {number}", "a header line must start with '@', and the header must end with a line '@data'"
            )
        tag, *words = line.split()
        tags[tag[1:].lower()] = (number, words)
    if begin == len(lines):
        damaged(path, f"line {lines[-1][0] if lines else 1}", "it has no line '@data'")
    return _understood(path, tags, begin + 1)


def _understood(path: Path, tags: dict[str, tuple[int, list[str]]], begin: int) -> _Header:
    if _is_true(path, tags, "timestamps"):
        raise checks.InputError(
            f"{path}, line {tags['timestamps'][0]}: series with time stamps are not supported. "
            "Resample them to equal steps and write the values alone."
        )
    regression, classes = _is_true(path, tags, "targetlabel"), _is_true(path, tags, "classlabel")
    if not (regression or classes):
        raise checks.InputError(
            f"{path} has no labels: its header says neither @classLabel true nor @targetLabel true."
        )
    dimensions = 1 if _is_true(path, tags, "univariate") else None
    for tag in ("dimension", "dimensions"):
        dimensions = _count(path, tags, tag) or dimensions
    equal = _is_true(path, tags, "equallength")
    length = _count(path, tags, "serieslength") if equal else None
    labels = tuple(tags["classlabel"][1][1:]) if classes else ()
    if len(set(labels)) < len(labels):
        damaged(path, f"line {tags['classlabel'][0]}", "it names a class twice")
    return _Header(begin, dimensions, equal, length, regression, labels or None)


def _is_true(path: Path, tags: dict[str, tuple[int, list[str]]], tag: str) -> bool:
    number, words = tags.get(tag, (0, ["false"]))
    if not words or words[0].lower() not in {"true", "false"}:
        damaged(path, f"line {number}", f"@{tag} is neither true nor false")
    return words[0].lower() == "true"


def _count(path: Path, tags: dict[str, tuple[int, list[str]]], tag: str) -> int | None:
    if tag not in tags:
        return None
    number, words = tags[tag]
    count = whole_number(words[0]) if len(words) == 1 else None
    if not count:
        damaged(path, f"line {number}", f"@{tag} is not a positive integer")
    return count


def _colon_separated(path: Path, lines: list[_Line], header: _Header, missing: bool) -> Iterator[_Row]:
    dimensions, steps = header.dimensions, header.length
    for number, line in lines[header.begin :]:
        if "(" in line:
            raise checks.InputError(
                f"{path}, line {number}: values with time stamps, (time, value), are not supported."
            )
        *fields, target = line.split(":")
        dimensions = dimensions or max(len(fields), 1)
        if len(fields) != dimensions:
            damaged(path, f"line {number}", f"it has {len(fields)} channels and a label instead of {dimensions}")
        channels = [_values(path, number, field.split(",")) for field in fields]
        _check_lengths(path, number, [len(channel) for channel in channels], steps)
        steps = len(channels[0]) if header.equal else None
        target = target.strip()
        _check_target(path, number, target, header)
        yield np.stack([_filled(path, number, channel, missing) for channel in channels], axis=1), target


def _check_lengths(path: Path, number: int, lengths: list[int], declared: int | None) -> None:
    for channel, length in enumerate(lengths, start=1):
        if length != lengths[0]:
            damaged(path, f"line {number}", f"channel {channel} has {length} steps and channel 1 has {lengths[0]}")
    if declared is not None and lengths[0] != declared:
        damaged(path, f"line {number}", f"the series has {lengths[0]} steps instead of {declared}")


def _check_target(path: Path, number: int, target: str, header: _Header) -> None:
    if header.regression:
        value = number_or_none(target)
        if value is None or not abs(value) <= LARGEST:
            damaged(path, f"line {number}", f"the target {target!r} is not a finite number")
    elif not target or (header.labels is not None and target not in header.labels):
        classes = ", ".join(header.labels or ["any text"])
        damaged(path, f"line {number}", f"the label {target!r} is not one of the classes: {classes}")


def _tab_separated(path: Path, lines: list[_Line], missing: bool) -> Iterator[_Row]:
    """The series of a .tsv file. The label comes first; NaN at the end is padding."""
    for number, line in lines:
        target, *fields = line.split("\t")
        if not target.strip() or not fields:
            damaged(path, f"line {number}", "it must have a label and values, separated by tabs")
        values = _values(path, number, fields)
        there = np.flatnonzero(~np.isnan(values))
        yield _filled(path, number, values[: there[-1] + 1 if len(there) else 0], missing)[:, None], target.strip()


def _values(path: Path, number: int, fields: list[str]) -> np.ndarray:
    """Numbers, with NaN for '?' and 'NaN'."""
    known = ["nan" if field.strip() == "?" else field for field in fields]
    try:
        values = np.array(known, dtype=np.float64)
    except ValueError:
        wrong = next((field for field in known if number_or_none(field) is None), "a value")
        damaged(path, f"line {number}", f"{wrong.strip()!r} is not a number")
    if (np.abs(values) > LARGEST).any():
        damaged(path, f"line {number}", f"{known[int((np.abs(values) > LARGEST).argmax())]!r} is not a finite number")
    return values


def _filled(path: Path, number: int, values: np.ndarray, missing: bool) -> np.ndarray:  # [steps] float32
    """Values that may be missing as they are; others interpolated linearly, and repeated at the start and the end."""
    gaps = np.isnan(values)
    if not len(values) or (gaps.all() and not missing):
        damaged(path, f"line {number}", "a channel has no values")
    if gaps.any() and not missing:
        values[gaps] = np.interp(np.flatnonzero(gaps), np.flatnonzero(~gaps), values[~gaps])
    return values.astype(np.float32)


def _columns(rows: Iterator[_Row]) -> tuple[list[np.ndarray], list[str]]:
    listed = list(rows)
    return [inputs for inputs, _ in listed], [target for _, target in listed]


def _series(path: Path, inputs: list[np.ndarray], targets: list[str], names: tuple[str, ...] | None) -> Series:
    labels = ordered_labels(targets) if names is None else names
    places = {label: place for place, label in enumerate(labels)}
    return Series(_ragged(path, inputs), np.array([places[t] for t in targets], dtype=np.int64), labels)


def _ragged(path: Path, inputs: list[np.ndarray]) -> Ragged:
    if not inputs:
        damaged(path, "its end", "it has no series")
    return Ragged.of(inputs)
