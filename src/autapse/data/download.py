"""Downloads that can be cut, go on where they stopped, and are checked before they get their name."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

from autapse import checks, files

OnProgress = Callable[[int, int | None], None]  # bytes so far, bytes in all

CHUNK = 1 << 18
ATTEMPTS = 4  # in a row without a single new byte, for each mirror
PAUSE = 0.5  # seconds before the second attempt; doubled each time
MOST = 64 << 30  # bytes of a file whose size nobody states; the largest data set here has 5 GB
PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers that may be better a moment later
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class _MirrorError(Exception):
    """A mirror that will not do."""


class _CutError(Exception):
    """The connection broke, or the server is busy: worth another attempt."""


@dataclass(frozen=True)
class _Note:
    """What a part is a part of, kept beside it: bytes of two versions of a file must not be joined."""

    url: str
    total: int | None
    version: str | None  # the server's ETag, or when it last changed the file


def fetch(
    urls: Sequence[str],
    target: Path,
    size: int | None = None,
    sha256: str | None = None,
    progress: OnProgress | None = None,
    *,
    timeout: float = 30.0,  # seconds without a byte
) -> Path:
    """Get one file from the first mirror that has it whole. What is there and good is not fetched again."""
    for url in urls:
        _check_scheme(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        if target.is_file() and not fault(target, size, sha256):
            return target
        troubles = []
        for url in urls:
            try:
                _whole(url, _part(target), size, progress, timeout)
                _finish(target, size, sha256)
            except _MirrorError as trouble:
                troubles.append(f"{url}: {trouble}")
            else:
                return target
        reasons = "; ".join(troubles) or "there is no address to get it from"
        raise checks.InputError(f"{target.name} could not be downloaded ({reasons}).")


def fault(path: Path, size: int | None, sha256: str | None) -> str:
    """What is wrong with a file's size or checksum, in words, or nothing."""
    found = path.stat().st_size
    if size is not None and found != size:
        return f"expected {size} bytes, found {found}"
    if sha256 is not None and (digest := file_sha256(path)) != sha256:
        return f"expected sha256 {sha256}, found {digest}"
    return ""


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with files.open_regular(path) as file:
        return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _note_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """One process downloads; the others wait and then find the file there."""
    path = target.with_name(f".{target.name}.lock")
    # A link or a pipe in its place is not followed or waited for: a data folder may be shared.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o666), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        # Only after success: whoever still waits on this lock then has nothing to write.
        path.unlink(missing_ok=True)


def _finish(target: Path, size: int | None, sha256: str | None) -> None:
    """Check a whole part and give it its name."""
    part = _part(target)
    if wrong := fault(part, size, sha256):
        _drop(part)
        raise _MirrorError(wrong)
    files.rename(part, target)
    _note_path(part).unlink(missing_ok=True)


def _drop(part: Path) -> None:
    part.unlink(missing_ok=True)
    _note_path(part).unlink(missing_ok=True)


def _whole(url: str, part: Path, size: int | None, progress: OnProgress | None, timeout: float) -> None:
    """Fill the part from one mirror, going on after cuts for as long as new bytes arrive."""
    best, failures = _length(part), 0
    while True:
        try:
            return _transfer(url, part, size, progress, timeout)
        except _CutError as cut:
            failures = 0 if _length(part) > best else failures + 1
            best = max(best, _length(part))
            if failures >= ATTEMPTS:
                raise _MirrorError(f"{cut}, {failures} times in a row") from None
            time.sleep(PAUSE * 2.0**failures)


def _transfer(url: str, part: Path, size: int | None, progress: OnProgress | None, timeout: float) -> None:
    """One request: the rest of the file, or all of it."""
    note = _read_note(part)
    have = _length(part) if note is not None and note.url == url else 0
    with _open(url, have, note, timeout) as answer:
        if answer.status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return _beyond(part, have, _total_of(answer.headers))
        new = _describe(url, answer, have)
        if size is not None and new.total is not None and new.total != size:
            raise _MirrorError(f"expected {size} bytes, the server offers {new.total}")
        resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumed and new != note:
            _drop(part)
            raise _CutError("the file changed on the server")
        most = size if size is not None else MOST if new.total is None else new.total
        _save(answer, part, new, have if resumed else 0, most, progress, timeout)
    if new.total is not None and _length(part) < new.total:
        raise _CutError(f"the connection was cut at byte {_length(part)} of {new.total}")
    return None


def _beyond(part: Path, have: int, total: int | None) -> None:
    """The server has nothing after what we have: that is all, or our part is of another file."""
    if have != total:
        _drop(part)
        raise _CutError("the file changed on the server")


def _open(url: str, have: int, note: _Note | None, timeout: float) -> Any:
    """The server's answer; also of a 416, whose headers matter."""
    headers = {"User-Agent": "autapse", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if note is not None and note.version is not None and not note.version.startswith("W/"):
            headers["If-Range"] = note.version
    opener = urllib.request.build_opener(_WebOnly)
    try:
        return opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            return error
        error.close()
        kind = _CutError if error.code in PASSING else _MirrorError
        raise kind(f"the server answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_words(error)) from None
    except ValueError as error:  # it leads to http://[
        raise _MirrorError(f"it leads to an address that is none ({error})") from None


def _describe(url: str, answer: Any, have: int) -> _Note:
    """What the server is sending, from its headers."""
    headers = answer.headers
    version = headers.get("ETag") or headers.get("Last-Modified")
    if answer.status == http.HTTPStatus.PARTIAL_CONTENT:
        if not headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise _MirrorError("the server sends another part of the file than the one asked for")
        return _Note(url, _total_of(headers), version)
    length = headers.get("Content-Length", "")
    return _Note(url, _number(length), version)


def _total_of(headers: Message) -> int | None:
    return _number(headers.get("Content-Range", "").rpartition("/")[2])


def _number(text: str) -> int | None:
    """A size from a header; None if it is missing or none that a file has."""
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


def _save(
    answer: Any, part: Path, note: _Note, start: int, most: int, progress: OnProgress | None, timeout: float
) -> None:
    """Append what arrives to the part, from byte `start` on, up to `most` bytes in all."""
    try:
        # Unbuffered, so that the part's length is always what has really been kept.
        with _open_part(part, start) as file:
            files.write_json(_note_path(part), asdict(note))
            file.seek(start)
            for chunk in _chunks(answer, timeout):
                if file.tell() + len(chunk) > most:
                    _drop(part)
                    raise _MirrorError(f"the server sends more than the {most} bytes that the file may have")
                _write(file, chunk)
                if progress is not None:
                    progress(file.tell(), note.total)
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        remedy = "Free some space and fetch again: what has arrived is kept, and the download goes on from there."
        raise checks.InputError(f"There is no space left for {part} ({error.strerror}). {remedy}") from None


def _open_part(part: Path, start: int) -> IO[bytes]:
    """The part to append to, or a new one; never what a link leads to."""
    if start:
        buffered: Any = files.open_regular(part, "r+b", follow=False)
        return cast(IO[bytes], buffered.detach())
    part.unlink(missing_ok=True)
    return part.open("xb", buffering=0)


def _chunks(answer: Any, timeout: float) -> Iterator[bytes]:
    """The bytes of an answer; trouble with the network is a cut, unlike trouble with the disk."""
    while True:
        try:
            chunk = answer.read1(CHUNK)
        except TimeoutError:
            raise _CutError(f"nothing arrived for {timeout:g} seconds") from None
        except (OSError, http.client.HTTPException) as error:
            raise _CutError(_words(error)) from None
        if not chunk:
            return
        yield chunk


def _write(file: IO[bytes], chunk: bytes) -> None:
    """All of a chunk: an unbuffered file may take less at a time."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[file.write(rest) :]


def _read_note(part: Path) -> _Note | None:
    """The note of a part; None if there is none that can be read."""
    try:
        return _Note(**files.read_json(_note_path(part)))
    except (checks.InputError, TypeError):
        return None


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _words(error: Exception) -> str:
    """What a network error says, without its wrapping."""
    reason = getattr(error, "reason", None) or error
    return f"no connection ({getattr(reason, 'strerror', None) or reason or type(error).__name__})"


def _check_scheme(url: str) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        checks.fail("url", "begin with http:// or https://", url)


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never to ftp:// or file://."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in ("http", "https"):
            fp.close()
            raise _MirrorError(f"it leads to {newurl}, which is no web address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
