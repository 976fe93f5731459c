"""A cache of parsed arrays. Its key changes with the version of the parser and with the files."""

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
    """The arrays of `parse()`. They are parsed again only if the version or a source has changed.

    Args:
        name: Folder of the cached file, such as "cifar-10/images".
        version: Version of the parser; increase it when the parser changes.
        sources: Files and folders that `parse` reads.
        parse: Returns the arrays by name.
    """
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
        text = f"The parsed arrays of {name} cannot be stored ({error.strerror}: {path})."
        remedy = "They will be parsed again each time. To use another folder, set AUTAPSE_CACHE."
        warnings.warn(f"{text} {remedy}", stacklevel=2)
    return arrays


def pack_strings(strings: Sequence[str]) -> np.ndarray:
    r"""Strings as bytes in UTF-8, with "\n" after each, because the cache cannot store arrays of strings.

    >>> unpack_strings(pack_strings(["one", "zwölf", ""]))
    ['one', 'zwölf', '']
    """
    for string in strings:
        if "\n" in string:
            checks.fail("strings", "have no line breaks", string)
    return np.frombuffer("".join(f"{s}\n" for s in strings).encode(), dtype=np.uint8).copy()


def unpack_strings(packed: np.ndarray) -> list[str]:
    """The strings that `pack_strings` packed."""
    return packed.tobytes().decode().split("\n")[:-1]


def _key(name: str, version: int, sources: Sequence[Path]) -> str:
    parts = [name, str(version), *map(_source_sum, sources)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _source_sum(source: Path) -> str:
    """The checksum of a file's bytes; for a folder, of the names, sizes and times of its files."""
    if source.is_file():
        return file_sha256(source)
    if not source.is_dir():
        raise checks.InputError(f"{source} is missing.")
    stats = sorted((path.relative_to(source).as_posix(), path.stat()) for path in source.rglob("*") if path.is_file())
    rows = [f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}" for name, stat in stats]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _plain(key: str, array: np.ndarray) -> np.ndarray:
    """The array as the cache will return it: contiguous, in this machine's byte order."""
    array = np.asarray(array, order="C")
    if array.dtype.name not in _TYPES:
        remedy = "Use pack_strings for strings."
        checks.fail(f"array {key!r}", f"have one of the types {', '.join(_TYPES)}", str(array.dtype), remedy)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _keep(path: Path, arrays: Arrays) -> None:
    """Write the arrays, then remove the files of older versions and older sources."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, save(arrays, metadata={"crc32": _crc(arrays)}))
    for old in path.parent.glob("v*.safetensors"):
        if old != path:
            old.unlink(missing_ok=True)


def _load(path: Path) -> Arrays | None:
    """The arrays in a file; None if it is missing or damaged."""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
            expected = (file.metadata() or {}).get("crc32")
    except (OSError, SafetensorError):
        return None
    return arrays if _crc(arrays) == expected else None


def _crc(arrays: Arrays) -> str:
    """A checksum of the data. safetensors checks only its header."""
    crc = 0
    for key in sorted(arrays):
        crc = zlib.crc32(np.ascontiguousarray(arrays[key]).reshape(-1).view(np.uint8).data, crc)
    return str(crc)
