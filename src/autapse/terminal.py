r"""What a command prints. Text from a file, a folder's name or a server never acts as a command to the terminal.

>>> visible("red\x1b[31m")
'red\\x1b[31m'
"""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TextIO

LAYOUT = "\n\t"  # what our own text is laid out with
# Control characters, line separators, marks that reverse the direction of text, and bytes of a name that is not UTF-8.
HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object, keep: str = "") -> str:
    """`text` with its control characters written out as escapes, but for those in `keep`."""
    return HIDDEN.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), str(text))


def write(text: object = "", *, end: str = "\n", error: bool = False) -> None:
    """Print `text` with its control characters visible. It is no error if the reader has closed the pipe."""
    stream = sys.stderr if error else sys.stdout
    try:
        print(visible(text, keep=LAYOUT), end=end, file=stream)
    except BrokenPipeError:
        silence(stream)


def prepare() -> None:
    """Let characters that the streams cannot encode appear as escapes, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Hand over what is still in the buffers: Python would do it after the exit code is set, and change that."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            silence(stream)
            if not isinstance(error, BrokenPipeError):
                raise


def silence(stream: TextIO) -> None:
    """Drop all further output of a stream that nobody reads: `autapse run adding | head -1` trains to the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
