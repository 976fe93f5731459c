"""The user's own series, parsed once: the arrays of large files are kept in the cache, never beside the file."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from autapse.data.cache import Arrays, cached, pack_strings, unpack_strings
from autapse.data.formats.sequences import FileLayout
from autapse.data.formats.table import read_series
from autapse.data.formats.timeseries import Series
from autapse.data.paths import parsed_root
from autapse.data.ragged import Ragged, dense

VERSION = 1  # increase it when a reader changes
SMALLEST = 1 << 20  # bytes; smaller files are parsed each time
MOST = 16  # files whose arrays are kept
FOLDER = "own"


def read_kept(path: Path, layout: FileLayout) -> Series:
    """The series of a file or folder, from the cache if the content and the layout are the same as before."""
    if not (path.is_dir() or (path.is_file() and path.stat().st_size >= SMALLEST)):
        return read_series(path, layout)
    key = hashlib.sha256(f"{path.absolute()}\n{layout}".encode(errors="surrogateescape")).hexdigest()[:16]
    stem = re.sub(r"[^A-Za-z0-9]", "_", path.name)[:40]
    made: list[Series] = []

    def parse() -> Arrays:
        made.append(read_series(path, layout))
        return _arrays(made[0])

    arrays = cached(f"{FOLDER}/{stem}-{key}", VERSION, [path], parse)
    _forget_others()
    return made[0] if made else _series(arrays)


def _arrays(series: Series) -> Arrays:
    arrays = {
        "inputs": series.inputs.values,
        "lengths": series.inputs.lengths,
        "targets": dense(series.targets),
        "per_step": np.array([isinstance(series.targets, Ragged)]),
        "time_step": np.array([series.time_step]),
    }
    for name, texts in (("labels", series.labels), ("channels", series.channels)):
        arrays[name] = pack_strings([text.encode("unicode_escape").decode() for text in texts])
    return arrays


def _series(arrays: Arrays) -> Series:
    inputs, targets = Ragged(arrays["inputs"], arrays["lengths"]), arrays["targets"]
    labels, channels = (
        tuple(text.encode().decode("unicode_escape") for text in unpack_strings(arrays[name]))
        for name in ("labels", "channels")
    )
    per_step: np.ndarray | Ragged = Ragged(targets, arrays["lengths"]) if arrays["per_step"][0] else targets
    return Series(inputs, per_step, labels, channels, float(arrays["time_step"][0]))


def _forget_others() -> None:
    """Keep the arrays of the files that were parsed last."""
    with suppress(OSError):
        folders = sorted((parsed_root() / FOLDER).iterdir(), key=lambda folder: folder.stat().st_mtime)
        for folder in folders[:-MOST]:
            for file in folder.glob("v*.safetensors"):
                file.unlink(missing_ok=True)
            folder.rmdir()
