"""Lines of a text file as sequences of characters or words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.data.reading import read_bytes, text_lines
from autapse.data.vocabulary import UNKNOWN, Vocabulary

Units = Literal["characters", "words"]
SUFFIXES = (".txt", ".txt.gz")
Lines = list[list[str]]
BOM = b"\xef\xbb\xbf"  # with which some programs begin a UTF-8 file


def is_text(word: str) -> bool:
    """Whether a word of the command line is a text file."""
    return word.lower().endswith(SUFFIXES)


def read_text(path: Path, units: Units) -> Lines:
    """The characters or words of each line that is not empty."""
    content = read_bytes(path)
    whole = content if content.endswith(b"\n") else content + b"\n"
    lines = [line.strip() for line in text_lines(whole.removeprefix(BOM), path)]
    sequences = [list(line) if units == "characters" else line.split() for line in lines if line]
    if not sequences:
        raise checks.InputError(f"{path} has no text: all its lines are empty.")
    return sequences


def vocabulary_of(train: Lines, others: Sequence[Lines], units: Units, min_count: int) -> Vocabulary:
    """The symbols of some lines.

    Args:
        train: The lines for training.
        others: Further lines. Their characters are known too, but not their words.
        units: Characters or words.
        min_count: Words that occur less often in the training lines are unknown.
    """
    if units == "characters":
        return Vocabulary(sorted({symbol for lines in (train, *others) for line in lines for symbol in line}))
    counts = Counter(word for line in train for word in line)
    kept = {word: count for word, count in counts.items() if count >= min_count and word != UNKNOWN}
    if not kept:
        remedy = "Use a smaller one, or --units characters."
        checks.fail("min_count", "leave some words: no word occurs as often", min_count, remedy)
    return Vocabulary.of_counts(kept, special=(UNKNOWN,), unknown=UNKNOWN)


def numbered(lines: Lines, vocabulary: Vocabulary) -> Ragged:
    """The numbers of the symbols, int64."""
    lengths = np.array([len(line) for line in lines], dtype=np.int64)
    return Ragged(vocabulary.ids(symbol for line in lines for symbol in line), lengths)
