"""Text as symbols: characters or words, with their numbers."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

Units = Literal["characters", "words"]
SEPARATORS: dict[Units, str] = {"characters": "", "words": " "}


def split_text(text: str, separator: str) -> list[str]:
    """The symbols of a text.

    Args:
        text: the text. Space at its ends does not count.
        separator: empty for characters; otherwise words, with any space between them.

    Returns:
        The symbols. A letter and its accent are one symbol (Unicode's form NFC).

    >>> split_text("a tiny text", ""), split_text(" a tiny  text", " ")
    (['a', ' ', 't', 'i', 'n', 'y', ' ', 't', 'e', 'x', 't'], ['a', 'tiny', 'text'])
    """
    known = unicodedata.normalize("NFC", text.strip())
    return known.split() if separator else list(known)


class SymbolTable:
    """The symbols that a text may have, with their numbers.

    Args:
        names: the symbols, in the order of their numbers.
        separator: text between two symbols; empty for characters.
        other: the number of all symbols that are not in `names`.

    >>> letters = SymbolTable("abc", "", other=-1)
    >>> letters.ids("cab!").tolist(), letters.text([0, 1, 1])
    ([2, 0, 1, -1], 'abb')
    """

    def __init__(self, names: Sequence[str], separator: str, other: int) -> None:
        self.names, self.separator, self.other = tuple(names), separator, other
        self._numbers = {name: n for n, name in enumerate(self.names)}

    def ids(self, text: str) -> np.ndarray:  # [T] int64
        """The numbers of the symbols of a text."""
        find = self._numbers.get
        return np.array([find(symbol, self.other) for symbol in self.split(text)], dtype=np.int64)

    def split(self, text: str) -> list[str]:
        """The symbols of a text, known or not."""
        return split_text(text, self.separator)

    def unknown(self, text: str) -> list[str]:
        """The symbols of a text that are not known."""
        return [symbol for symbol in self.split(text) if symbol not in self._numbers]

    def text(self, ids: Iterable[int] | np.ndarray) -> str:
        """The text of some numbers."""
        return self.separator.join(self.names[n] for n in ids)
