"""Read the user's own data by the ending of the file: tables (`sequences`), arrays (`array_files`) and .ts files.

For predictions, `read_sequences` also reads such files without targets, and two more kinds: .npy, and .csv without a
header for one sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autapse import checks
from autapse.data.decompress import DECOMPRESSORS
from autapse.data.formats import array_files, sequences, sound
from autapse.data.formats.delimited import Delimited
from autapse.data.formats.parquet import Parquet
from autapse.data.formats.sequences import FileLayout, Parsed
from autapse.data.formats.timeseries import Series, number_or_none, read_ts, suffix
from autapse.data.ragged import Ragged

PLAIN = FileLayout()
PACKED = (".npz", ".npy", ".parquet")  # compressed by themselves
TEXTS = ".ts, .tsv or .csv, optionally followed by .gz, .bz2 or .xz"


@dataclass(frozen=True, eq=False)
class SequenceFile:
    """Sequences to predict."""

    inputs: Ragged  # of [steps, channels] float32
    names: tuple[str, ...] = ()  # of the sequences, if the file has names
    targets: list[Any] | np.ndarray | None = None  # per sequence: the name of its class, one per step, or values
    channels: tuple[str, ...] = ()  # their names, if the file has names


def read_series(path: Path, layout: FileLayout = PLAIN) -> Series:
    """Series with targets from a file, or from a folder of sounds."""
    if path.is_dir() and not suffix(path):
        return sound.read_folder(path, layout).series
    reader = READERS.get(suffix(path))
    if reader is None or (suffix(path) in PACKED and path.suffix in DECOMPRESSORS):
        checks.fail("The file's name", f"end in {TEXTS}; or in .npz or .parquet", str(path))
    return reader(path, layout)


def read_sequences(path: Path, layout: FileLayout = PLAIN) -> SequenceFile:
    """Sequences from a file, with or without targets; or from a sound or a folder of sounds."""
    if sound.is_sound(path):
        return _labelled(sound.read_plain(path, layout))
    plain = {".npy": _npy_sequences, ".npz": _npz_sequences, ".csv": _csv_sequences, ".parquet": _parquet_sequences}
    kind = suffix(path)
    if kind not in (*READERS, *plain) or (kind in PACKED and path.suffix in DECOMPRESSORS):
        checks.fail("The file's name", f"end in {TEXTS}; or in .npy, .npz or .parquet", str(path))
    if kind == ".tsv" and _has_header(Delimited.open(path)):
        return _csv_sequences(path, layout)
    return plain[kind](path, layout) if kind in plain else _labelled(Parsed.of(READERS[kind](path, layout)))


def _labelled(parsed: Parsed) -> SequenceFile:
    """Sequences with the names of their classes."""
    targets = parsed.targets
    if targets is None:
        return SequenceFile(parsed.inputs, parsed.names, None, parsed.channels)
    rows = [targets[n] for n in range(len(targets))]
    if isinstance(targets, Ragged):
        shown: Any = [[parsed.labels[place] for place in row] if parsed.labels else row for row in rows]
    else:
        shown = [parsed.labels[place] for place in rows] if parsed.labels else targets
    return SequenceFile(parsed.inputs, parsed.names, shown, parsed.channels)


def read_csv(path: Path, layout: FileLayout = PLAIN) -> Series:
    """Read a table in text."""
    table = Delimited.open(path)
    table.check_header()
    if sound.lists_sounds(table):
        return sound.read_list(table, layout, needed=True).series
    return sequences.parse(table, layout, targets=True).series


def _read_tsv(path: Path, layout: FileLayout) -> Series:
    """A table with a header, or a file of the UCR archive without one."""
    return read_csv(path, layout) if _has_header(Delimited.open(path)) else read_ts(path, layout.missing)


def _has_header(table: Delimited) -> bool:
    return len(table.header) > 1 and all(number_or_none(cell) is None for cell in table.header)


def _csv_sequences(path: Path, layout: FileLayout) -> SequenceFile:
    table = Delimited.open(path)
    if not table.header:
        raise checks.InputError(f"{path} is empty.")
    if not _has_names(table.header, layout):
        _, values = table.headless().read({}, table.headless().header, layout.missing)
        return SequenceFile(Ragged.of([values]))
    table.check_header()
    if sound.lists_sounds(table):
        return _labelled(sound.read_list(table, layout, needed=False))
    return _labelled(sequences.parse(table, _open(layout), targets=False))


def _has_names(header: Sequence[str], layout: FileLayout) -> bool:
    """Whether the first line has names of columns, rather than numbers."""
    known = {"sequence", "target", layout.sequence, *(layout.targets or ())}
    return layout.form == "wide" or bool(known & set(header)) or all(number_or_none(cell) is None for cell in header)


def _open(layout: FileLayout) -> FileLayout:
    """If the names of the channels are known, a table needs no column with the sequence."""
    return replace(layout, single=layout.single or bool(layout.channels))


def _read_parquet(path: Path, layout: FileLayout) -> Series:
    return sequences.parse(Parquet.open(path), layout, targets=True).series


def _parquet_sequences(path: Path, layout: FileLayout) -> SequenceFile:
    return _labelled(sequences.parse(Parquet.open(path), _open(layout), targets=False))


def read_npz(path: Path, layout: FileLayout = PLAIN) -> Series:
    """Read a .npz file; the docstring of `array_files` describes its arrays."""
    return array_files.read_npz(path, layout, ("inputs", "targets")).series


def _npz_sequences(path: Path, layout: FileLayout) -> SequenceFile:
    return _labelled(array_files.read_npz(path, layout, ("inputs",)))


def _npy_sequences(path: Path, layout: FileLayout) -> SequenceFile:
    return _labelled(array_files.read_npy(path, layout))


def _read_ts(path: Path, layout: FileLayout) -> Series:
    return read_ts(path, layout.missing)


READERS: dict[str, Callable[[Path, FileLayout], Series]] = {
    ".ts": _read_ts,
    ".tsv": _read_tsv,
    ".csv": read_csv,
    ".npz": read_npz,
    ".parquet": _read_parquet,
}
