"""Sentences with a tag per word: the ten columns of CoNLL-U, or a word and its tag per line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from autapse import checks
from autapse.data.reading import damaged, read_bytes, text_lines

OPEN = ("ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB")
CLOSED = ("ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ")
UPOS = {*OPEN, *CLOSED, "PUNCT", "SYM", "X", "_"}
COLUMNS = 10
NUMBER = r"[1-9]\d{0,17}"  # Python refuses to read thousands of digits
WORD = re.compile(NUMBER)
# "don't" as 2-3 is words 2 and 3 once more, and 8.1 is a word that the text does not have.
SKIPPED = re.compile(rf"{NUMBER}-{NUMBER}|(?:0|{NUMBER})\.{NUMBER}")


class Sentence(NamedTuple):
    """The words of one sentence with their universal and their treebank's own part of speech."""

    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]


class TaggedSentence(NamedTuple):
    """The words of one sentence with one tag each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class _Words:
    """The sentence that is being read: its words so far, and what its next line may be."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self.commented = False

    def line(self, line: str) -> str:
        """Take one line; what is wrong with it, or nothing."""
        if line.startswith("#"):
            self.commented = True
            return "a comment follows a word; a blank line must end the sentence first" if self.rows else ""
        fields = line.split("\t")
        if len(fields) != COLUMNS:
            return f"it has {len(fields)} columns separated by tabs instead of {COLUMNS}"
        if SKIPPED.fullmatch(fields[0]):
            return "" if self._due(fields[0]) else f"{fields[0]} is out of order after word {len(self.rows)}"
        return self._place(fields[0]) or self._word(fields[1], fields[3], fields[4])

    def _place(self, place: str) -> str:
        if not WORD.fullmatch(place):
            return f"{place!r} is no word number"
        if int(place) != len(self.rows) + 1:
            hint = "; a blank line must end the sentence first" if place == "1" else ""
            return f"word {place} follows word {len(self.rows)}{hint}"
        return ""

    def _word(self, form: str, upos: str, xpos: str) -> str:
        if not (form and xpos):
            return f"the {'tag' if form else 'word'} is empty"
        if upos not in UPOS:
            return f"{upos!r} is no universal part of speech"
        self.rows.append((form, upos, xpos))
        return ""

    def _due(self, place: str) -> bool:
        """Whether a range starts at the next word, or an empty node stands behind the last one."""
        first = int(re.split("[-.]", place)[0])
        return first == len(self.rows) + ("-" in place)

    def sentence(self) -> Sentence:
        forms, upos, xpos = zip(*self.rows, strict=True)
        return Sentence(forms, upos, xpos)


def read_conllu(path: Path) -> list[Sentence]:
    """The sentences of a .conllu file; multiword ranges such as 1-2 and empty nodes such as 1.1 are left out."""
    sentences, words, number = [], _Words(), 0
    for number, line in enumerate(text_lines(read_bytes(path), path), 1):
        if line:
            if problem := words.line(line):
                damaged(path, f"line {number}", problem)
        elif words.rows:
            sentences.append(words.sentence())
            words = _Words()
        else:
            damaged(path, f"line {number}", "a blank line ends a sentence without words")
    if words.rows or words.commented:
        damaged(path, f"line {number}", "the last sentence has no blank line after it, so the file was cut")
    return sentences


def read_tagged_lines(path: Path) -> list[TaggedSentence]:
    """The sentences of a file with a word and its tag per line, a tab or spaces between, a blank line after each."""
    found = []
    for sentence in _line_sentences(path):
        for number, line, fields in sentence:
            if len(fields) != 2 or not all(fields):
                damaged(path, f"line {number}", f"{line!r} is not one word and one tag with a tab or spaces between")
        found.append(TaggedSentence(*zip(*(fields for _, _, fields in sentence), strict=True)))
    return found


def read_words(path: Path) -> list[TaggedSentence]:
    """The sentences of a .txt as `read_tagged_lines` has it, or with the words alone, one per line; then no tags."""
    sentences = _line_sentences(path)
    entries = [entry for sentence in sentences for entry in sentence]
    fields_each = len(entries[0][2])
    for number, line, fields in entries:
        if len(fields) != fields_each or fields_each > 2 or not all(fields):
            raise checks.InputError(
                f"{path}, line {number}: {line!r} is not one word, nor one word and its tag as on all lines. "
                "Write one word per line and a blank line after each sentence."
            )
    if fields_each == 2:
        return read_tagged_lines(path)
    return [TaggedSentence(tuple(fields[0] for _, _, fields in sentence), ()) for sentence in sentences]


def _line_sentences(path: Path) -> list[list[tuple[int, str, list[str]]]]:
    """For each sentence its lines: number, text, and fields."""
    sentences: list[list[tuple[int, str, list[str]]]] = [[]]
    content = read_bytes(path)
    # Such files are often written by hand, so the last line break may be missing, and blank lines may be too many.
    for number, line in enumerate(text_lines(content.removesuffix(b"\n") + b"\n", path), 1):
        if line.strip():
            sentences[-1].append((number, line, line.split("\t") if "\t" in line else line.split()))
        else:
            sentences.append([])
    found = [sentence for sentence in sentences if sentence]
    if not found:
        damaged(path, "line 1", "it has no sentence")
    return found
