"""One line for a command that needs more memory than the machine has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# Python and numpy raise MemoryError, torch raises RuntimeError. Impossibly large sizes raise various errors.
TOO_LARGE = re.compile(
    r"allocate memory|out of memory|Storage size calculation overflowed|Overflow when unpacking|array is too big"
    r"|Maximum allowed (dimension|size) exceeded|out of bounds for int64"
)
AMOUNT = re.compile(r"allocate ([\d.]+ \w+)")
NO_MEMORY = re.compile(r"seed|steps|epochs|seconds|every|rescues|stop|period|patience")  # settings that need no memory


def is_too_little(error: Exception) -> bool:
    """Whether an error means that there is not enough memory, or that a size is too large."""
    return isinstance(error, MemoryError | OverflowError) or TOO_LARGE.search(str(error)) is not None


def sentence(error: Exception, words: Sequence[str]) -> str:
    """The error message. It names the option of the command line that most likely needs so much memory."""
    amount = AMOUNT.search(str(error))
    wanted = f" for an array of {amount[1]}" if amount else ""
    value, option = max(_sizes(words), default=(0, ""))
    largest = f" The largest size given is {option} {value}." if option else ""
    remedy = "Choose smaller sizes for the network or the data, or shorter sequences."
    return f"This machine has too little memory{wanted}.{largest} {remedy}"


def _sizes(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The integers on a command line, each with its option."""
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            option = name
        number = value if equals else word
        if option and re.fullmatch(r"\d{1,4000}", number) and not NO_MEMORY.search(option):
            yield int(number), option
