"""Read the content of one file: decompressed, as lines of text, or from a zip archive."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn

from autapse import checks, files
from autapse.data.decompress import BROKEN, DECOMPRESSORS, check_growth, unpack

# zipfile and tarfile also raise these for manipulated headers and encrypted files.
ODD = (ValueError, RuntimeError, RecursionError, OverflowError, LookupError)
DIGITS = 18  # of a number in a text; Python does not parse thousands of digits


def damaged(path: object, where: str, reason: str) -> NoReturn:
    """Raise the error for a damaged file: the file, the position and the reason."""
    raise checks.InputError(f"{path} is damaged at {where}: {reason}. Correct it there, or download the file again.")


def read_bytes(path: Path | zipfile.Path) -> bytes:
    """The bytes of a regular file or of a file in a zip archive, decompressed if its name ends in .gz, .bz2 or .xz."""
    if isinstance(path, zipfile.Path):
        with open_member(path.root, path.at, path.root.filename) as file:
            return decompress(file.read(), path)
    try:
        return decompress(files.read_bytes(path), path)
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None


def decompress(content: bytes, name: object) -> bytes:
    """The decompressed content of a file; unchanged if it is not compressed."""
    kind = PurePosixPath(str(name)).suffix
    if kind not in DECOMPRESSORS:
        return content
    try:
        return unpack(io.BytesIO(content), kind, len(content), name).read()
    except BROKEN as error:
        damaged(name, f"byte {len(content)}", f"it cannot be decompressed ({error})")


def whole_number(text: str) -> int | None:
    """The value of a text of decimal digits; None for any other text, and for a very long one."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS else None


def text_lines(content: bytes, name: object) -> list[str]:
    """The lines of a UTF-8 text. The last line must end in a line break too, so that an incomplete file is detected."""
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


@contextmanager
def open_member(archive: zipfile.ZipFile, name: str, path: object, held: bool = True) -> Iterator[IO[bytes]]:
    """Open a file of a zip archive. It never yields more bytes than it declares."""
    member = archive.getinfo(name)
    # The declared sizes may be wrong, but the files end before the archive's list of files starts.
    check_growth(f"{path}/{name}", member.file_size, min(member.compress_size, archive.start_dir), held)
    try:
        with archive.open(member) as file:
            yield file
    except checks.InputError:
        raise
    except (*BROKEN, *ODD) as error:
        damaged(path, name, str(error))
