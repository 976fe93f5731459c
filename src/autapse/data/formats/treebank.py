"""Tagged words of parsed sentences in brackets, as the Penn Treebank has them: files whose names end in .mrg."""

from __future__ import annotations

from pathlib import Path

from autapse.data.formats.brackets import TOKEN
from autapse.data.formats.conllu import TaggedSentence
from autapse.data.reading import damaged, read_bytes, text_lines

TRACE = "-NONE-"  # the tag of what is only thought of, such as a moved object


def read_treebank(path: Path) -> list[TaggedSentence]:
    """The sentences of a file. A sentence may take several lines; traces are left out.

    Args:
        path: the file.

    Returns:
        The words of each sentence with their tags.
    """
    sentences: list[TaggedSentence] = []
    open_brackets: list[list[str]] = []  # what is in each bracket that is open: texts only
    words: list[tuple[str, str]] = []
    number = 1
    for number, line in enumerate(text_lines(read_bytes(path).removesuffix(b"\n") + b"\n", path), 1):
        for token in TOKEN.findall(line):
            if token == "(":
                open_brackets.append([])
            elif not open_brackets:
                damaged(path, f"line {number}", f"{token[:40]!r} is outside of all brackets")
            elif token != ")":
                open_brackets[-1].append(token)
            else:
                texts = open_brackets.pop()
                if len(texts) > 2:
                    what = " ".join(texts)[:40]
                    damaged(path, f"line {number}", f"({what}) is not one tag and one word in brackets")
                if len(texts) == 2 and texts[0] != TRACE:
                    words.append((texts[1], texts[0]))
                if not open_brackets and words:
                    sentences.append(TaggedSentence(*zip(*words, strict=True)))
                    words = []
    if open_brackets:
        damaged(path, f"line {number}", "a bracket is not closed")
    if not sentences:
        damaged(path, "line 1", "it has no sentence")
    return sentences
