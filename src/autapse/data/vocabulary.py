"""Words and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from autapse import checks

UNKNOWN = "<unk>"
"""The word that replaces all words outside a vocabulary, as in the Penn Treebank's text."""


class Vocabulary:
    """A list of words. The id of a word is its index in the list.

    Args:
        words: The words, each one once.
        unknown: The word that replaces all words outside the list; None: such words are an error.

    >>> some = Vocabulary.of_counts({"a": 3, "cat": 1, "sat": 1}, special=("<pad>", "<unk>"), unknown="<unk>")
    >>> some.ids("a cat ran".split())
    array([2, 3, 1])
    """

    def __init__(self, words: Iterable[str], unknown: str | None = None) -> None:
        self._words = tuple(words)
        self._ids = {word: n for n, word in enumerate(self._words)}
        self.unknown = unknown
        for n, word in enumerate(self._words):
            if self._ids[word] != n:
                checks.fail("words", "differ from each other", word, f"It is entry {n} and entry {self._ids[word]}.")
            # The cache stores one word per line, so a word must not be empty or contain a line break.
            if not word or "\n" in word:
                checks.fail("words", "be non-empty and have no line break", word)
        if unknown is not None and unknown not in self._ids:
            checks.fail("unknown", "be a word of the vocabulary", unknown)

    @classmethod
    def of_counts(
        cls,
        counts: Mapping[str, int],
        size: int | None = None,  # special entries included
        special: Sequence[str] = (),
        unknown: str | None = None,
    ) -> Vocabulary:
        """The special entries, then the words by frequency; equally frequent words are in alphabetical order."""
        minimum = len(special) + 1
        if size is not None:
            checks.integer("size", size, minimum, f"It counts the {len(special)} special entries too.")
        ordered = sorted(counts.keys() - set(special), key=lambda word: (-counts[word], word))
        return cls([*special, *ordered][:size], unknown)

    @classmethod
    def from_text(cls, text: str, unknown: str | None = None) -> Vocabulary:
        """Read the vocabulary that `to_text` wrote."""
        return cls(text.removesuffix("\n").split("\n"), unknown)

    def to_text(self) -> str:
        """One word per line, in the order of their ids."""
        return "".join(f"{word}\n" for word in self._words)

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def ids(self, words: Iterable[str]) -> np.ndarray:  # [words] int64
        """The id of each word. An unknown word has the id of `unknown`, or is an error if that is None."""
        find = self._ids.get
        other = -1 if self.unknown is None else self._ids[self.unknown]
        words = list(words)
        ids = np.array([find(word, other) for word in words], dtype=np.int64)
        if self.unknown is None and (ids < 0).any():
            word = words[int(ids.argmin())]
            checks.fail("words", "be in the vocabulary, which has no entry for unknown words", word)
        return ids

    def words(self, ids: Iterable[int] | np.ndarray) -> list[str]:
        """The word of each id."""
        return [self._words[self._checked(n)] for n in ids]

    def _checked(self, n: object) -> int:
        if (number := checks.integer("ids", n, minimum=0)) >= len(self):
            checks.fail("ids", f"be below the vocabulary's size {len(self)}", number)
        return number
