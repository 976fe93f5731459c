"""bAbI question answering: tasks_1-20_v1-2/en/qa<task>_<title>_<split>.txt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from autapse import checks
from autapse.data.archives import FileTree, open_tree
from autapse.data.reading import damaged, text_lines, whole_number

TASKS = 20
SPLITS = ("train", "test")
LINE = re.compile(r"([1-9]\d{0,17}) (.+)")
TOKEN = re.compile(r"[^\s.?]+")


class Question(NamedTuple):
    """A question with all statements before it in its story. Tokens are lower-case, without "." and "?"."""

    statements: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]  # the line number of each statement in its story; questions are counted too
    question: tuple[str, ...]
    answer: str  # a list such as "milk,football" is one answer
    supports: tuple[int, ...]  # the line numbers of the statements that imply the answer


class _Story:
    """The statements since the last line with number 1."""

    def __init__(self) -> None:
        self.last = 0
        self.statements: dict[int, tuple[str, ...]] = {}

    def ask(self, text: str, answer: str, supports: str) -> Question:
        if not answer.strip():
            raise ValueError("the question has no answer")
        numbers = tuple(number for word in supports.split() if (number := whole_number(word)) is not None)
        if len(numbers) < len(supports.split()):
            raise ValueError(f"{supports!r} are not line numbers")
        for number in numbers:
            if number not in self.statements:
                raise ValueError(f"the answer refers to line {number}, which is not a statement before the question")
        statements, lines = tuple(self.statements.values()), tuple(self.statements)
        return Question(statements, lines, _tokens(text), answer.strip().lower(), numbers)

    def line(self, number: int, text: str) -> Question | None:
        """Read one line. Returns the question if the line is one."""
        if number != self.last + 1:
            raise ValueError(f"line {number} of the story follows line {self.last}")
        self.last = number
        fields = text.split("\t")
        if len(fields) == 1:
            self.statements[number] = _tokens(text)
            return None
        if len(fields) != 3:
            raise ValueError(f"a question has 3 parts separated by tabs, but this line has {len(fields)}")
        return self.ask(*fields)


def read_babi(source: FileTree | Path, task: int, split: str) -> list[Question]:
    """The questions of one task (1 to 20) and split ("train" or "test"), from the unpacked folder or the archive."""
    if not 1 <= checks.integer("task", task) <= TASKS:
        checks.fail("task", f"be between 1 and {TASKS}", task)
    checks.one_of("split", split, SPLITS)
    if isinstance(source, FileTree):
        return _read(source, task, split)
    with open_tree(source) as tree:
        return _read(tree, task, split)


def _read(tree: FileTree, task: int, split: str) -> list[Question]:
    # The archive has the same file names under en-10k, hn and shuffled as well.
    wanted = re.compile(rf"(|.*/)en/qa{task}_[^/]+_{split}\.txt|qa{task}_[^/]+_{split}\.txt")
    matches = [name for name in tree.names() if wanted.fullmatch(name)]
    if not matches:
        raise checks.InputError(f"{tree.where(f'en/qa{task}_*_{split}.txt')} is missing.")
    return _questions(text_lines(tree.read(matches[0]), tree.where(matches[0])), tree.where(matches[0]))


def _questions(lines: list[str], name: str) -> list[Question]:
    story, questions = _Story(), []
    for position, line in enumerate(lines, 1):
        parts = LINE.fullmatch(line)
        if parts is None:
            damaged(name, f"line {position}", f"{line[:40]!r} is not a number, a space and a sentence")
        if parts[1] == "1":
            story = _Story()
        try:
            question = story.line(int(parts[1]), parts[2])
        except ValueError as error:
            damaged(name, f"line {position}", str(error))
        if question is not None:
            questions.append(question)
    return questions


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(TOKEN.findall(text.lower()))
