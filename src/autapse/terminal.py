r"""Print text. Control characters in foreign text are escaped, so that they cannot act as terminal commands.

>>> visible("red\x1b[31m")
'red\\x1b[31m'
"""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TextIO

LAYOUT = "\n\t"  # control characters that our own text uses
# Control characters, line separators, marks that reverse the text direction, and bytes of names that are not UTF-8.
HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object, keep: str = "") -> str:
    """`text` with its control characters as escapes, except those in `keep`."""
    return HIDDEN.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), str(text))


def write(text: object = "", *, end: str = "\n", error: bool = False) -> None:
    """Print `text` with its control characters as escapes. A closed pipe is not an error."""
    stream = sys.stderr if error else sys.stdout
    try:
        print(visible(text, keep=LAYOUT), end=end, file=stream)
    except BrokenPipeError:
        silence(stream)


def prepare() -> None:
    """Print characters that the streams cannot encode as escapes, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Flush the buffers now. Python would flush them after the exit code is set, and an error would change the code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            silence(stream)
            if not isinstance(error, BrokenPipeError):
                raise


def silence(stream: TextIO) -> None:
    """Discard further output of a stream that nobody reads: `autapse run adding | head -1` trains to the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
