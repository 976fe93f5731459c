"""Symbols by name: what people pass to a model that writes symbols, and what they get back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autapse import checks
from autapse.models.heads import MISSING


@dataclass(frozen=True)
class Symbols:
    """The symbols of a model.

    Args:
        count: how many there are.
        names: their names; empty if they have none.
        separator: text between two symbols; empty for characters.

    >>> letters = Symbols(3, ("a", "b", "c"), "")
    >>> letters.numbers("abba"), letters.text(np.array([2, 0, 1]))
    (array([0, 1, 1, 0]), 'cab')
    """

    count: int
    names: tuple[str, ...] = ()
    separator: str = " "

    def numbers(self, sequence: Any, argument: str = "sequences") -> np.ndarray:  # [T] int64
        """One sequence as numbers: from text, names or numbers, with None or −100 for a symbol that is missing.

        Args:
            sequence: text, or a list or array of names or numbers.
            argument: its name in an error.
        """
        if isinstance(sequence, str):
            sequence = self.parts(sequence)
        listed = sequence.tolist() if hasattr(sequence, "tolist") else sequence
        if not isinstance(listed, list | tuple):
            rule = "be text, or a list of symbols by name or by number"
            checks.fail(argument, rule, type(sequence).__name__, kind=checks.KindError)
        return np.array([self._number(symbol, argument) for symbol in listed], dtype=np.int64)

    def parts(self, text: str) -> list[str]:
        """The names of the symbols in a text."""
        return list(text) if not self.separator else [part for part in text.split(self.separator) if part]

    def _number(self, symbol: Any, argument: str) -> int:
        if symbol is None or symbol == MISSING:
            return MISSING
        if isinstance(symbol, str):
            if not self.names:
                checks.fail(argument, "have numbers, since the symbols of this model have no names", symbol)
            if symbol not in self.names:
                known = f"{len(self.names)} symbols of the training data"
                checks.fail(argument, f"have only the {known}", symbol, checks.closest(symbol, self.names))
            return self.names.index(symbol)
        if isinstance(symbol, bool) or not isinstance(symbol, int):
            checks.fail(argument, "have symbols by name or by number", symbol, kind=checks.KindError)
        if not 0 <= symbol < self.count:
            checks.fail(argument, f"have numbers from 0 to {self.count - 1}", symbol)
        return symbol

    def read(self, sequences: Any, argument: str = "sequences") -> tuple[list[np.ndarray], bool]:
        """One or many sequences as numbers, and whether it is one.

        Args:
            sequences: one: text, or a list or array of numbers. Many: a list of texts, a list of lists or arrays of
                names or numbers, or an array [N, T].
            argument: its name in an error.

        >>> Symbols(3, ("a", "b", "c"), "").read(["ab", "c"])
        ([array([0, 1]), array([2])], False)
        """
        if isinstance(sequences, str) or _is_flat(sequences):
            return [self.numbers(sequences, argument)], True
        if not hasattr(sequences, "__iter__"):
            checks.fail(argument, "be one or several sequences", type(sequences).__name__, kind=checks.KindError)
        numbered = [self.numbers(one, f"{argument}[{n}]") for n, one in enumerate(sequences)]
        if not numbered:
            checks.fail(argument, "have at least one sequence", 0)
        return numbered, False

    def text(self, numbers: np.ndarray) -> str:  # [T]
        """A sequence as text."""
        return self.separator.join(self.names[number] for number in numbers)

    def shown(self, numbers: np.ndarray) -> str | np.ndarray:
        """A sequence as text if the symbols have names, otherwise as numbers."""
        return self.text(numbers) if self.names else numbers


def _is_flat(sequences: Any) -> bool:
    """Whether it is one sequence of numbers. A list of texts is many sequences."""
    if hasattr(sequences, "dtype"):
        return bool(sequences.ndim == 1 and not str(sequences.dtype).startswith(("<U", "object")))
    return isinstance(sequences, Sequence) and all(one is None or isinstance(one, int) for one in sequences)
