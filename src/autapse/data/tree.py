"""Files as upstream ships them: in a folder or in an archive, each one compressed or not, read the same way."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn

from autapse import checks, files
from autapse.data.packed import BROKEN, DECOMPRESSORS, check_growth, kind_of, unpack

# What zipfile and tarfile raise besides for headers that somebody wrote by hand, or for an encrypted file.
ODD = (ValueError, RuntimeError, RecursionError, OverflowError, LookupError)
DIGITS = 18  # of the numbers in a text; Python refuses to read thousands of them


def damaged(path: object, where: str, reason: str) -> NoReturn:
    """The one line for a file that is not what it should be: which file, where in it, what is wrong."""
    raise checks.InputError(f"{path} is damaged at {where}: {reason}. Mend it there, or get the file again.")


def read_bytes(path: Path | zipfile.Path) -> bytes:
    """The bytes of a regular file, or of one in a zip archive, decompressed if its name ends in .gz, .bz2 or .xz."""
    if isinstance(path, zipfile.Path):
        with open_member(path.root, path.at, path.root.filename) as file:
            return decompress(file.read(), path)
    try:
        return decompress(files.read_bytes(path), path)
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None


def decompress(content: bytes, name: object) -> bytes:
    """What a compressed file holds; other files as they are."""
    kind = PurePosixPath(str(name)).suffix
    if kind not in DECOMPRESSORS:
        return content
    try:
        return unpack(io.BytesIO(content), kind, len(content), name).read()
    except BROKEN as error:
        damaged(name, f"byte {len(content)}", f"it cannot be decompressed ({error})")


def whole_number(text: str) -> int | None:
    """The number that a text of decimal digits stands for; None for any other text, and for a very long one."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS else None


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
        return files.read_bytes(self.root / name)


class Zip(Tree):
    """A zip archive."""

    def __init__(self, root: Path, archive: zipfile.ZipFile) -> None:
        self.root, self._archive = root, archive
        self._names = sorted(n for n in archive.namelist() if not n.endswith("/"))

    def names(self) -> list[str]:
        return self._names

    def raw(self, name: str) -> bytes:
        with open_member(self._archive, name, self.root) as file:
            return file.read()


class Tar(Tree):
    """A tar archive, compressed or not. It is decompressed once, in memory: jumping in a stream would be quadratic."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files = dict(tar_contents(root, held=True))

    def names(self) -> list[str]:
        return sorted(self._files)

    def raw(self, name: str) -> bytes:
        return self._files[name]


def tar_files(path: Path, held: bool = False) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each file in a tar archive, in one pass; read a content before you ask for the next."""
    last = "its beginning"
    try:
        with files.open_regular(path) as packed:
            size = os.fstat(packed.fileno()).st_size
            with tarfile.open(fileobj=unpack(packed, kind_of(packed), size, path, held), mode="r|") as archive:
                for member in archive:
                    last = f"what follows {member.name.removeprefix('./')}"
                    # A sparse file declares zeros that the archive does not hold, as many as it likes.
                    file = archive.extractfile(member) if member.isfile() and not member.issparse() else None
                    if file is not None:
                        yield member.name.removeprefix("./"), file
    except checks.InputError:
        raise
    except (*BROKEN, *ODD) as error:
        damaged(path, last, f"it is no whole zip or tar archive ({error})")


def tar_contents(path: Path, wanted: Container[str] | None = None, held: bool = False) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of the wanted files in a tar archive, by default of all."""
    for name, file in tar_files(path, held):
        if wanted is None or name in wanted:
            try:
                content = file.read()
            except BROKEN as error:
                damaged(path, name, f"it is no whole tar archive ({error})")
            yield name, content


@contextmanager
def zip_archive(file: IO[bytes], path: object) -> Iterator[zipfile.ZipFile]:
    """An open zip archive."""
    try:
        archive = zipfile.ZipFile(file)
    except (*BROKEN, *ODD) as error:
        damaged(path, "its list of files", str(error))
    with archive:
        yield archive


@contextmanager
def open_member(archive: zipfile.ZipFile, name: str, path: object, held: bool = True) -> Iterator[IO[bytes]]:
    """A file of a zip archive, which never gives more bytes than it declares."""
    member = archive.getinfo(name)
    # What the archive says of its own sizes may be wrong; its list of files begins behind the last of them.
    check_growth(f"{path}/{name}", member.file_size, min(member.compress_size, archive.start_dir), held)
    try:
        with archive.open(member) as file:
            yield file
    except checks.InputError:
        raise
    except (*BROKEN, *ODD) as error:
        damaged(path, name, str(error))


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """A folder, a .zip or a .tar (.tar.gz, .tgz, .tar.xz, .tar.bz2) as a tree."""
    if path.is_dir():
        yield Folder(path)
        return
    if not path.exists():
        raise checks.InputError(f"{path} is missing.")
    with files.open_regular(path) as file:
        if zipfile.is_zipfile(file):
            with zip_archive(file, path) as archive:
                yield Zip(path, archive)
        elif is_tar(path):
            yield Tar(path)
        else:
            damaged(path, "byte 0", "it is neither a folder nor a whole zip or tar archive")


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive by its name."""
    return path.is_file() and (".tar" in path.suffixes or path.suffix == ".tgz")
