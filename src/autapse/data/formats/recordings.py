"""Windows of sensor recordings, and the text tables in which they are stored."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NoReturn

import numpy as np

from autapse import checks
from autapse.data.archives import FileTree
from autapse.data.decompress import DECOMPRESSORS
from autapse.data.reading import damaged


@dataclass(frozen=True, eq=False)
class Recordings:
    """N windows of equal length with their activities, their subjects, and the authors' split."""

    windows: np.ndarray  # [N, T, channels] float32
    labels: np.ndarray  # [N] int64, activities from 0
    subjects: np.ndarray  # [N] int64, with the numbers of the data set
    is_test: np.ndarray  # [N] bool

    def __len__(self) -> int:
        return len(self.labels)


def folder_of(tree: FileTree, file: str) -> str:
    """The folder of `file` in a tree, with a slash at the end. Archives differ in their outer folders."""
    for name in sorted(tree.names(), key=len):
        plain = name.removesuffix(PurePosixPath(name).suffix) if PurePosixPath(name).suffix in DECOMPRESSORS else name
        if plain == file or plain.endswith("/" + file):
            return plain.removesuffix(file)
    raise checks.InputError(f"{tree.root} has no file {file}.")


def numbers(
    content: bytes,
    name: str,  # for the message
    columns: int,
    separator: str | None = None,  # None: any white space
) -> np.ndarray:  # [rows, columns] float64
    """A text table of finite numbers, one row per line."""
    text = content.decode("ascii", errors="replace")
    if not text.strip():
        damaged(name, "line 1", "it is empty")
    try:
        table = np.loadtxt(io.StringIO(text), delimiter=separator, comments=None, ndmin=2)
    except ValueError:
        _explain(text, name, columns, separator)
    if table.shape[1] != columns or not np.isfinite(table).all():
        _explain(text, name, columns, separator)
    return table


def _explain(text: str, name: str, columns: int, separator: str | None) -> NoReturn:
    """Raise an error that names the wrong line; numpy's line numbers skip blank lines."""
    for number, line in enumerate(text.splitlines(), start=1):
        cells = line.split(separator)
        if line.strip() and len(cells) != columns:
            damaged(name, f"line {number}", f"it has {len(cells)} values instead of {columns}")
        for cell in cells if line.strip() else []:
            if not _finite(cell):
                damaged(name, f"line {number}", f"{cell.strip()!r} is not a finite number")
    damaged(name, "line 1", f"it is not a table of numbers with {columns} columns")


def _finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def whole_numbers(
    table: np.ndarray,  # [rows]
    name: str,
    low: int,
    high: int,
    what: str,
) -> np.ndarray:  # [rows] int64
    """One column as integers from `low` to `high`."""
    wrong = (table != np.floor(table)) | (table < low) | (table > high)
    if wrong.any():
        row = int(wrong.argmax())
        damaged(name, f"line {row + 1}", f"{what} is {table[row]:g}, not an integer from {low} to {high}")
    return table.astype(np.int64)
