"""Read regular files only, and write files so that they are never incomplete.

A file is written under a temporary name, flushed to disk, then renamed.
"""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal

from autapse import checks

MOST_JSON = 64 << 20  # largest size of a JSON file in bytes; ours have a few thousand
FLAGS = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "ab": os.O_WRONLY | os.O_APPEND}
NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0)  # opening a pipe must not wait for its writer
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
BINARY = getattr(os, "O_BINARY", 0)
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path, mode: Literal["rb", "r+b", "ab"] = "rb", *, follow: bool = True) -> IO[bytes]:
    """Open an existing regular file. A folder, a pipe, a socket or a device is an InputError.

    With `follow=False` a symbolic link is an error too. Files of a run folder are opened this way, because a link could
    point to a file outside the folder.
    """
    _check_regular(path, path.stat(follow_symlinks=follow))  # before opening: opening a device can have side effects
    descriptor = os.open(path, FLAGS[mode] | NOT_BLOCKING | BINARY | (0 if follow else NO_LINK))
    try:
        _check_regular(path, os.fstat(descriptor))  # the file may have been replaced in between
        return os.fdopen(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, *, follow: bool = True, limit: int | None = None) -> bytes:
    """The content of a regular file (see `open_regular`). More than `limit` bytes are an error."""
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        if limit is not None and size > limit:
            raise checks.InputError(f"{path} has {size} bytes; the limit is {limit}.")
        try:
            return file.read()
        except MemoryError:
            raise checks.InputError(f"{path} has {size} bytes and does not fit into memory.") from None


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise checks.InputError(f"{path} is {kind}, not a regular file.")


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content`. After a crash or on a full disk, the old file or no file remains, never half of the new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)  # left by a killed process with the same process id
        with part.open("xb") as file:  # "x" creates a new file, so an existing link is not followed
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        rename(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # the caller does not know the temporary name
        raise


def rename(old: Path, new: Path) -> None:
    """Rename a file, replace any file at `new`, and flush the folder, so that a power loss does not undo the rename."""
    old.replace(new)
    flush_folder(new.parent)


def flush_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, if the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_parts(folder: Path) -> None:
    """Remove temporary files that killed processes left. No other process may be writing to the folder."""
    for path in folder.glob(".*.part"):
        if re.fullmatch(r"\..+\.\d+\.part", path.name):
            with suppress(OSError):
                path.unlink()


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON with `write_bytes`. NaN and infinity are errors, because JSON has neither."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path, *, follow: bool = True) -> Any:
    """The content of a JSON file. A missing or damaged file is an InputError; so are NaN and infinity."""
    try:
        content = read_bytes(path, follow=follow, limit=MOST_JSON)
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None
    try:
        return json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # also for very long numbers and deeply nested lists
        raise checks.InputError(f"{path} is damaged: {error}.") from None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a JSON number")


def new_folder(path: Path) -> Path:
    """Create a folder. It is an error if it exists already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        remedy = "Choose another name, or remove it first."
        raise checks.InputError(f"{path} exists already and is not overwritten. {remedy}") from None
    flush_folder(path.parent)
    return path


def numbered_folder(path: Path) -> Path:
    """Create the folder `path`, or the first of path-2, path-3, … that does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir()
        except FileExistsError:
            number += 1
        else:
            flush_folder(path.parent)
            return candidate


def lock(path: Path) -> IO[bytes] | None:
    """Lock a file for this process, until the returned file is closed or the process ends.

    It is an InputError if another process has the lock. Returns None if the file system has no locks.
    """
    file = open_regular(path, "r+b", follow=False)
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        remedy = "Wait until it ends, or stop it."
        raise checks.InputError(f"{path.parent} is in use by another process. {remedy}") from None
    except (ImportError, OSError):
        file.close()
        return None
    return file
