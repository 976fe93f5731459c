"""Arrays parsed once and kept, under a key that changes with the parser and with the files."""

from __future__ import annotations

import hashlib
import re
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from autapse import checks, files
from autapse.data.download import file_sha256
from autapse.data.paths import parsed_root

Arrays = dict[str, np.ndarray]

_INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
_TYPES = ["bool", *_INTEGERS, "float16", "float32", "float64"]


def cached(name: str, version: int, sources: Sequence[Path], parse: Callable[[], Arrays]) -> Arrays:
    """What `parse` makes of `sources`; parsed again only if the version or a source has changed."""
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)*", name):
        checks.fail("name", "be words of letters, digits, dots and dashes, with slashes between them", name)
    path = parsed_root() / name / f"v{version}-{_key(name, version, sources)}.safetensors"
    kept = _load(path)
    if kept is not None:
        return kept
    arrays = {key: _plain(key, array) for key, array in parse().items()}
    try:
        _keep(path, arrays)
    except OSError as error:
        text = f"The parsed arrays of {name} cannot be kept ({error.strerror}: {path})."
        warnings.warn(f"{text} They are parsed anew each time; AUTAPSE_CACHE names another place.", stacklevel=2)
    return arrays


def pack_strings(strings: Sequence[str]) -> np.ndarray:
    r"""Strings as bytes, since arrays of strings cannot be kept: UTF-8, with "\n" after each.

    >>> unpack_strings(pack_strings(["one", "zwölf", ""]))
    ['one', 'zwölf', '']
    """
    for string in strings:
        if "\n" in string:
            checks.fail("strings", "have no line breaks", string)
    return np.frombuffer("".join(f"{s}\n" for s in strings).encode(), dtype=np.uint8).copy()


def unpack_strings(packed: np.ndarray) -> list[str]:
    """The strings of `pack_strings`."""
    return packed.tobytes().decode().split("\n")[:-1]


def _key(name: str, version: int, sources: Sequence[Path]) -> str:
    parts = [name, str(version), *map(_source_sum, sources)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _source_sum(source: Path) -> str:
    """A file by its bytes; a folder, which may hold thousands of files, by their names, sizes and times."""
    if source.is_file():
        return file_sha256(source)
    if not source.is_dir():
        raise checks.InputError(f"{source} is missing.")
    found = sorted((path.relative_to(source).as_posix(), path.stat()) for path in source.rglob("*") if path.is_file())
    rows = [f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}" for name, stat in found]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _plain(key: str, array: np.ndarray) -> np.ndarray:
    """An array as it will come back from the cache: in this machine's byte order, contiguous."""
    array = np.asarray(array, order="C")
    if array.dtype.name not in _TYPES:
        remedy = "Use pack_strings for strings."
        checks.fail(f"array {key!r}", f"have one of the types {', '.join(_TYPES)}", str(array.dtype), remedy)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _keep(path: Path, arrays: Arrays) -> None:
    """Write the arrays, then remove what older versions and older files left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, save(arrays, metadata={"crc32": _crc(arrays)}))
    for old in path.parent.glob("v*.safetensors"):
        if old != path:
            old.unlink(missing_ok=True)


def _load(path: Path) -> Arrays | None:
    """The arrays in a file; None if it is missing or damaged."""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no dict)
            expected = (file.metadata() or {}).get("crc32")
    except (OSError, SafetensorError):
        return None
    return arrays if _crc(arrays) == expected else None


def _crc(arrays: Arrays) -> str:
    """A checksum, since safetensors checks its header only: a flipped bit in the data would go unnoticed."""
    crc = 0
    for key in sorted(arrays):
        crc = zlib.crc32(np.ascontiguousarray(arrays[key]).reshape(-1).view(np.uint8).data, crc)
    return str(crc)
