"""Read compressed streams up to a limit: a file of a few bytes can contain a terabyte of zeros."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any, NoReturn

from autapse import checks

BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
DECOMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
BEGINNINGS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz"}

ROOM = 256 << 20  # any compressed file may contain this many bytes
GROWTH = 100  # or this many times its own size, if that is more; text and sensor data have 3 to 20 times


def limit_of(size: int, held: bool = True) -> int:
    """How many bytes a compressed file of `size` bytes may contain; if `held` in memory, at most half of the memory."""
    grown = max(ROOM, GROWTH * size)
    return min(grown, _memory() // 2) if held else grown


def check_growth(name: object, count: int, size: int, held: bool = True) -> None:
    """Raise an error if a file of `size` bytes contains too many bytes, `count`, after decompression."""
    if count > limit_of(size, held):
        too_large(name, limit_of(size, held))


def too_large(name: object, limit: int) -> NoReturn:
    remedy = "If you trust the file, decompress it yourself and use the result."
    raise checks.InputError(f"{name} must contain at most {limit} bytes after decompression. {remedy}")


def unpack(file: IO[bytes], kind: str, size: int, name: object, held: bool = True) -> IO[bytes]:
    """The decompressed stream of a stream of `size` bytes; `kind` is a suffix such as .gz, or empty."""
    if not kind:
        return file
    return io.BufferedReader(_Bounded(DECOMPRESSORS[kind](file), limit_of(size, held), name), io.DEFAULT_BUFFER_SIZE)


def kind_of(file: IO[bytes]) -> str:
    """The compression of a file, from its first bytes: .gz, .bz2, .xz or empty."""
    start = file.read(max(map(len, BEGINNINGS)))
    file.seek(0)
    return next((kind for bytes_, kind in BEGINNINGS.items() if start.startswith(bytes_)), "")


class _Bounded(io.RawIOBase):
    """A stream that raises an error when more than `limit` bytes are read."""

    def __init__(self, stream: Any, limit: int, name: object) -> None:
        self._stream, self._left, self._limit, self._name = stream, limit, limit, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = int(self._stream.readinto(buffer))
        self._left -= count
        if self._left < 0:
            too_large(self._name, self._limit)
        return count


def _memory() -> int:
    """The memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
