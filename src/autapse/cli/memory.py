"""One line for a command that asks for more memory than there is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# MemoryError is Python's and numpy's. torch raises a RuntimeError, and sizes that no machine has raise various errors.
TOO_LARGE = re.compile(
    r"allocate memory|out of memory|Storage size calculation overflowed|Overflow when unpacking|array is too big"
    r"|Maximum allowed (dimension|size) exceeded|out of bounds for int64"
)
AMOUNT = re.compile(r"allocate ([\d.]+ \w+)")
NO_MEMORY = re.compile(r"seed|steps|epochs|seconds|every|rescues|stop|period|patience")  # settings that take none


def is_too_little(error: Exception) -> bool:
    """Whether an error says that memory, or the range of sizes, does not suffice."""
    return isinstance(error, MemoryError | OverflowError) or TOO_LARGE.search(str(error)) is not None


def sentence(error: Exception, words: Sequence[str]) -> str:
    """What is wrong, and the setting of the command line that most likely asks for so much."""
    amount = AMOUNT.search(str(error))
    wanted = f" for {amount[1]} in one piece" if amount else ""
    value, option = max(_sizes(words), default=(0, ""))
    remedy = f"{option} {value} is the largest size given" if option else "The sizes of the network and the data count"
    return f"This machine has too little memory{wanted}. {remedy}: choose smaller ones, or shorter sequences."


def _sizes(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Whole numbers on a command line, each with its option."""
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            option = name
        number = value if equals else word
        if option and re.fullmatch(r"\d{1,4000}", number) and not NO_MEMORY.search(option):
            yield int(number), option
