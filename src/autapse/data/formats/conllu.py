"""Sentences with a tag per word: the ten columns of CoNLL-U, or a line per word with the word and its tags."""

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
DOCUMENT = "-DOCSTART-"  # CoNLL-2003 begins each text with such a line
NUMBER = r"[1-9]\d{0,17}"  # Python does not parse thousands of digits
WORD = re.compile(NUMBER)
# A line 2-3 ("don't") repeats words 2 and 3, and a line 8.1 is a word that is not in the text. Both are skipped.
SKIPPED = re.compile(rf"{NUMBER}-{NUMBER}|(?:0|{NUMBER})\.{NUMBER}")


class TaggedSentence(NamedTuple):
    """The words of one sentence with one tag each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class Sentence(NamedTuple):
    """The words of one sentence with their universal tags and the treebank's own tags."""

    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]

    def tagged(self, tags: str) -> TaggedSentence:
        """The words with one kind of tags: upos or xpos."""
        return TaggedSentence(self.forms, self.upos if tags == "upos" else self.xpos)


class _Words:
    """The sentence that is being read: its words so far."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self.commented = False

    def line(self, line: str) -> str:
        """Read one line. Returns what is wrong with it, or an empty string."""
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
            return f"{place!r} is not a word number"
        if int(place) != len(self.rows) + 1:
            hint = "; a blank line must end the sentence first" if place == "1" else ""
            return f"word {place} follows word {len(self.rows)}{hint}"
        return ""

    def _word(self, form: str, upos: str, xpos: str) -> str:
        if not (form and xpos):
            return f"the {'tag' if form else 'word'} is empty"
        if upos not in UPOS:
            return f"{upos!r} is not a universal part of speech"
        self.rows.append((form, upos, xpos))
        return ""

    def _due(self, place: str) -> bool:
        """Whether a range starts at the next word, or an empty node comes after the last word."""
        first = int(re.split("[-.]", place)[0])
        return first == len(self.rows) + ("-" in place)

    def sentence(self) -> Sentence:
        forms, upos, xpos = zip(*self.rows, strict=True)
        return Sentence(forms, upos, xpos)


def read_conllu(path: Path) -> list[Sentence]:
    """The sentences of a .conllu file. Multiword ranges such as 1-2 and empty nodes such as 1.1 are skipped."""
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
        damaged(path, f"line {number}", "the last sentence has no blank line after it, so the file is incomplete")
    return sentences


def read_conllu_column(path: Path, column: int) -> list[TaggedSentence]:
    """The sentences of a .conllu file with the content of one of its ten columns as tags, counted from 0."""
    checks.integer("column", column, minimum=2, maximum=COLUMNS - 1)
    read_conllu(path)  # checks the file
    sentences: list[list[tuple[str, str]]] = [[]]
    for line in text_lines(read_bytes(path), path):
        fields = line.split("\t")
        if not line:
            sentences.append([])
        elif not line.startswith("#") and not SKIPPED.fullmatch(fields[0]):
            sentences[-1].append((fields[1], fields[column] or "_"))
    return [TaggedSentence(*zip(*words, strict=True)) for words in sentences if words]


def read_tagged_lines(path: Path, column: int | None = None) -> list[TaggedSentence]:
    """The sentences of a file with one word and its tags per line and a blank line after each sentence.

    `column` has the tags; column 0 has the word. Without it, each line has one word and one tag.
    """
    tagged = []
    for sentence in _line_sentences(path):
        for number, line, fields in sentence:
            _check_fields(path, number, line, fields, column)
        tagged.append(
            TaggedSentence(*zip(*((fields[0], fields[column or 1]) for _, _, fields in sentence), strict=True))
        )
    return tagged


def _check_fields(path: Path, number: int, line: str, fields: list[str], column: int | None) -> None:
    if column is not None:
        if not 1 <= column < len(fields) or not (fields[0] and fields[column]):
            rule = f"have a word in column 0 and a label in column {column}, separated by a tab or spaces"
            raise checks.InputError(f"{path}, line {number} must {rule}; got {line!r}.")
    elif len(fields) > 2:
        choice = f"Choose the one with the labels by --column, from 1 to {len(fields) - 1}; column 0 is the word."
        raise checks.InputError(f"{path}, line {number} has {len(fields)} columns: {line!r}. {choice}")
    elif len(fields) != 2 or not all(fields):
        damaged(path, f"line {number}", f"{line!r} is not one word and one tag, separated by a tab or spaces")


def read_words(path: Path, column: int | None = None) -> list[TaggedSentence]:
    """The sentences of a file with a word and its tags per line, or with one word per line and no tags."""
    sentences = _line_sentences(path)
    entries = [entry for sentence in sentences for entry in sentence]
    fields_each = len(entries[0][2])
    for number, line, fields in entries:
        if len(fields) != fields_each or (fields_each > 2 and column is None) or not all(fields):
            raise checks.InputError(
                f"{path}, line {number} must be one word, or one word and its tag as on all lines; got {line!r}. "
                "Write one word per line and a blank line after each sentence."
            )
    if fields_each > 1 and (column or 1) < fields_each:
        return read_tagged_lines(path, column)
    return [TaggedSentence(tuple(fields[0] for _, _, fields in sentence), ()) for sentence in sentences]


def _line_sentences(path: Path) -> list[list[tuple[int, str, list[str]]]]:
    """The lines of each sentence: number, text and fields."""
    sentences: list[list[tuple[int, str, list[str]]]] = [[]]
    content = read_bytes(path)
    # Such files are often written by hand: the last line break may be missing, and there may be extra blank lines.
    for number, line in enumerate(text_lines(content.removesuffix(b"\n") + b"\n", path), 1):
        if line.startswith(DOCUMENT):
            continue
        if line.strip():
            sentences[-1].append((number, line, line.split("\t") if "\t" in line else line.split()))
        else:
            sentences.append([])
    sentences = [sentence for sentence in sentences if sentence]
    if not sentences:
        damaged(path, "line 1", "it has no sentence")
    return sentences
