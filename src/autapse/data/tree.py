"""Files as upstream ships them: in a folder or in an archive, each one compressed or not, read the same way."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NoReturn

from autapse import checks

DECOMPRESSORS = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)


def damaged(path: object, where: str, reason: str) -> NoReturn:
    """The one line for a file that is not what it should be: which file, where in it, what is wrong."""
    raise checks.InputError(f"{path} is damaged at {where}: {reason}. Mend it there, or get the file again.")


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in .gz, .bz2 or .xz."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None
    return decompress(content, path)


def decompress(content: bytes, name: object) -> bytes:
    """What a compressed file holds; other files as they are."""
    opened = DECOMPRESSORS.get(PurePosixPath(str(name)).suffix)
    if opened is None:
        return content
    try:
        return opened(content)
    except (*BROKEN, ValueError) as error:  # bz2's for a file that was cut
        damaged(name, f"byte {len(content)}", f"it cannot be decompressed ({error})")


def text_lines(content: bytes, name: object) -> list[str]:
    """The lines of a UTF-8 text of which each, the last one too, ends in a line break: a cut file is found out."""
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        damaged(name, f"line {line}", f"byte {error.start} of the file is not UTF-8 text")
    # Not splitlines: other separators, such as U+2028, occur inside sentences.
    *lines, rest = text.split("\n")
    if rest or not lines:
        damaged(name, f"line {len(lines) + 1}", "the file ends within a line" if rest else "the file is empty")
    return lines


class Tree(ABC):
    """Named files under one root; names are relative, with slashes."""

    root: Path

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all files, sorted."""

    @abstractmethod
    def raw(self, name: str) -> bytes:
        """A file as it is."""

    def read(self, name: str) -> bytes:
        """A file's content; where only `name`.gz, .bz2 or .xz is there, that one's, decompressed."""
        for suffix in ("", *DECOMPRESSORS):
            if name + suffix in self._known:
                return decompress(self.raw(name + suffix), self.where(name + suffix))
        raise checks.InputError(f"{self.where(name)} is missing.")

    @cached_property
    def _known(self) -> frozenset[str]:
        """The names once more, to look one up: a data set may have tens of thousands."""
        return frozenset(self.names())

    def where(self, name: str) -> str:
        """What to call a file in a message."""
        return f"{self.root}/{name}"


class Folder(Tree):
    """A folder on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())

    def names(self) -> list[str]:
        return self._names

    def raw(self, name: str) -> bytes:
        return (self.root / name).read_bytes()


class Zip(Tree):
    """A zip archive."""

    def __init__(self, root: Path, archive: zipfile.ZipFile) -> None:
        self.root, self._archive = root, archive
        self._names = sorted(n for n in archive.namelist() if not n.endswith("/"))

    def names(self) -> list[str]:
        return self._names

    def raw(self, name: str) -> bytes:
        try:
            return self._archive.read(name)
        except BROKEN as error:
            damaged(self.root, name, str(error))


class Tar(Tree):
    """A tar archive, compressed or not. It is decompressed once, in memory: jumping in a stream would be quadratic."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, bytes] = {}
        try:
            with tarfile.open(root) as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.isfile() else None
                    if file is not None:
                        self._files[member.name.removeprefix("./")] = file.read()
        except BROKEN as error:
            last = next(reversed(self._files), "its beginning")
            damaged(root, f"what follows {last}", str(error))

    def names(self) -> list[str]:
        return sorted(self._files)

    def raw(self, name: str) -> bytes:
        return self._files[name]


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """A folder, a .zip or a .tar (.tar.gz, .tgz, .tar.xz, .tar.bz2) as a tree."""
    if path.is_dir():
        yield Folder(path)
    elif not path.exists():
        raise checks.InputError(f"{path} is missing.")
    elif zipfile.is_zipfile(path):
        with _opened(path) as archive:
            yield Zip(path, archive)
    elif ".tar" in path.suffixes or path.suffix == ".tgz":
        yield Tar(path)
    else:
        damaged(path, "byte 0", "it is neither a folder nor a whole zip or tar archive")


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except BROKEN as error:
        damaged(path, "its list of files", str(error))
