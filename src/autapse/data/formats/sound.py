"""Folders and tables of sound files, as log filterbank energies: one step every 10 ms, 32 frequency bands.

A folder has one folder per class, with .wav files. A table has a column `file`, with paths relative to the table, and a
column `target` or `label`. All sounds are converted to one rate: 16 kHz, or the lowest rate of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autapse import checks
from autapse.data.filterbank import log_mel
from autapse.data.formats.array_files import classes
from autapse.data.formats.delimited import Delimited, Texts
from autapse.data.formats.sequences import FileLayout, Parsed, targets_of_rows
from autapse.data.formats.wav import read_sound
from autapse.data.ragged import Ragged
from autapse.data.reading import read_bytes

RATE, LOWEST = 16_000, 4_000  # Hz
FILTERS = 32
CHANNELS = tuple(f"band {n}" for n in range(1, FILTERS + 1))
LONGEST = 3600  # seconds


def is_sound(path: Path) -> bool:
    """Whether a path is a folder or a .wav file, rather than a file with numbers."""
    return path.is_dir() or path.suffix.lower() == ".wav"


def lists_sounds(table: Delimited) -> bool:
    """Whether a table has sound files in its rows."""
    return "file" in table.header and all(cell.lower().endswith(".wav") for cell in table.head("file"))


def read_folder(path: Path, layout: FileLayout) -> Parsed:
    """The sounds of a folder, with the names of their folders as classes."""
    files = sounds_in(path)
    inputs, rate = _features(files, layout.time_step)
    targets, labels = classes([file.parent.name for file in files])
    return Parsed(inputs, _names(path, files), CHANNELS, targets, labels, 1 / rate)


def read_plain(path: Path, layout: FileLayout) -> Parsed:
    """One .wav file, or all of a folder, without classes."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix.lower() == ".wav")
    if not files:
        raise checks.InputError(f"{path} has no .wav files.")
    inputs, rate = _features(files, layout.time_step)
    return Parsed(inputs, _names(path, files), CHANNELS, None, (), 1 / rate)


def read_list(table: Delimited, layout: FileLayout, needed: bool) -> Parsed:
    """The sounds that a table lists. If `needed`, it must have targets."""
    column = next((name for name in (*(layout.targets or ()), "target", "label") if name in table.header), "")
    if needed and not column:
        there = ", ".join(table.header)
        raise checks.InputError(f"{table.path} has no column 'target' and no column 'label'; its columns are {there}.")
    columns, _ = table.read({"file": "texts", **({column: "texts"} if column else {})})
    listed = columns["file"]
    assert isinstance(listed, Texts)
    names = [listed.names[code] for code in listed.codes]
    files = [table.path.parent / name for name in names]
    for row, file in enumerate(files):
        if not file.is_file():
            table.fail(row, "file", f"{str(file)!r} is missing")
    inputs, rate = _features(files, layout.time_step)
    targets, labels = targets_of_rows(table, [columns[column]] if column else [], (column,))
    return Parsed(inputs, tuple(names), CHANNELS, targets, labels, 1 / rate)


def sounds_in(path: Path) -> list[Path]:
    """The .wav files in the folders of a folder. Names that begin with a dot or an underscore are skipped."""
    files = sorted(file for file in path.glob("[!._]*/[!._]*") if file.suffix.lower() == ".wav")
    if not files:
        rule = "have a folder for each class, with .wav files, as in yes/1.wav and no/2.wav"
        raise checks.InputError(f"{path} must {rule}; it has none.")
    return files


def _names(folder: Path, files: Sequence[Path]) -> tuple[str, ...]:
    return tuple(str(file.relative_to(folder)) if file != folder else file.name for file in files)


def _features(files: Sequence[Path], step: float) -> tuple[Ragged, int]:
    """The energies of each file, and the rate of the samples that they were computed from."""
    rate = round(1 / step) if step else min(RATE, *(_read(file)[1] for file in files))
    made = []
    for file in files:
        samples, own = _read(file)
        signal = _at_rate(samples, own, rate) * 32_768  # in 16-bit units, as in `speech_commands`
        made.append(log_mel(signal[None], rate, FILTERS)[0].astype(np.float32))
    return Ragged.of(made), rate


def _read(file: Path) -> tuple[np.ndarray, int]:
    samples, rate = read_sound(read_bytes(file), file)
    if rate < LOWEST or not 0 < len(samples) <= LONGEST * rate:
        got = f"{len(samples)} samples at {rate} Hz"
        checks.fail(str(file), f"have at least {LOWEST} Hz and last at most {LONGEST} seconds", got)
    if not np.isfinite(samples).all():
        raise checks.InputError(f"{file} has a sample that is not finite.")
    return samples, rate


def _at_rate(samples: np.ndarray, own: int, rate: int) -> np.ndarray:
    """The sound at another rate: frequencies above half of the lower rate are removed."""
    if own == rate:
        return samples
    count = max(1, round(len(samples) * rate / own))
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return np.fft.irfft(spectrum, count) * (count / len(samples))
