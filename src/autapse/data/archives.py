"""Read files from a folder or an archive in the same way, compressed or not."""

from __future__ import annotations

import os
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO

from autapse import checks, files
from autapse.data.decompress import BROKEN, DECOMPRESSORS, kind_of, unpack
from autapse.data.reading import ODD, damaged, decompress, open_member


class FileTree(ABC):
    """Named files under one root; names are relative, with slashes."""

    root: Path

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all files, sorted."""

    @abstractmethod
    def raw(self, name: str) -> bytes:
        """The content of a file, unchanged."""

    def read(self, name: str) -> bytes:
        """The content of a file. If only `name`.gz, .bz2 or .xz exists, that one is read and decompressed."""
        for suffix in ("", *DECOMPRESSORS):
            if name + suffix in self._known:
                return decompress(self.raw(name + suffix), self.where(name + suffix))
        raise checks.InputError(f"{self.where(name)} is missing.")

    @cached_property
    def _known(self) -> frozenset[str]:
        """The names as a set, for fast lookup: a data set may have tens of thousands."""
        return frozenset(self.names())

    def where(self, name: str) -> str:
        """The name of a file in messages."""
        return f"{self.root}/{name}"


class Folder(FileTree):
    """A folder on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())

    def names(self) -> list[str]:
        return self._names

    def raw(self, name: str) -> bytes:
        return files.read_bytes(self.root / name)


class Zip(FileTree):
    """A zip archive."""

    def __init__(self, root: Path, archive: zipfile.ZipFile) -> None:
        self.root, self._archive = root, archive
        self._names = sorted(n for n in archive.namelist() if not n.endswith("/"))

    def names(self) -> list[str]:
        return self._names

    def raw(self, name: str) -> bytes:
        with open_member(self._archive, name, self.root) as file:
            return file.read()


class Tar(FileTree):
    """A tar archive, compressed or not. It is decompressed once, in memory, because seeking in the stream is slow."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files = dict(tar_contents(root, held=True))

    def names(self) -> list[str]:
        return sorted(self._files)

    def raw(self, name: str) -> bytes:
        return self._files[name]


def tar_files(path: Path, held: bool = False) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each file in a tar archive, in one pass. Read a content before you take the next one."""
    last = "its beginning"
    try:
        with files.open_regular(path) as packed:
            size = os.fstat(packed.fileno()).st_size
            with tarfile.open(fileobj=unpack(packed, kind_of(packed), size, path, held), mode="r|") as archive:
                for member in archive:
                    last = f"what follows {member.name.removeprefix('./')}"
                    # A sparse file can declare any number of zeros that are not in the archive.
                    file = archive.extractfile(member) if member.isfile() and not member.issparse() else None
                    if file is not None:
                        yield member.name.removeprefix("./"), file
    except checks.InputError:
        raise
    except (*BROKEN, *ODD) as error:
        damaged(path, last, f"it is not a complete zip or tar archive ({error})")


def tar_contents(path: Path, wanted: Container[str] | None = None, held: bool = False) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of the wanted files in a tar archive; by default of all files."""
    for name, file in tar_files(path, held):
        if wanted is None or name in wanted:
            try:
                content = file.read()
            except BROKEN as error:
                damaged(path, name, f"it is not a complete tar archive ({error})")
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
def open_tree(path: Path) -> Iterator[FileTree]:
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
            damaged(path, "byte 0", "it is neither a folder nor a complete zip or tar archive")


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive, judged by its name."""
    return path.is_file() and (".tar" in path.suffixes or path.suffix == ".tgz")
