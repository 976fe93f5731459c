"""Questions about short stories (paper: recurrent identity networks, section 3.3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.data.formats.babi import TASKS, Question, read_babi
from autapse.data.paths import source
from autapse.data.ragged import Ragged
from autapse.data.vocabulary import UNKNOWN, Vocabulary
from autapse.tasks.base import Kind, Metric, Signature
from autapse.tasks.stored import Examples, Parts, Stored


@dataclass(frozen=True, kw_only=True)
class BAbI(Stored):
    """x_t = (word, time): all statements before the question, then the question; y is the answer.

    The time of the question's words is 1. That of the last statement's is 0, of the statement before it −1, and so on.
    The classes are all answers of the training and test sets. The vocabulary is that of the training set.

    Args:
        number: Which of the 20 tasks, from 1 to 20.
        validation: Share of the training questions that is held out for validation.
    """

    number: int = 1

    name: ClassVar[str] = "babi"
    data_sets: ClassVar[tuple[str, ...]] = ("babi",)
    summary: ClassVar[str] = "answer a question about a short story"
    kind: ClassVar[Kind] = "question answering"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent answer"
    embedding_size: ClassVar[tuple[int, ...]] = (200,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if checks.integer("number", self.number, minimum=1) > TASKS:
            checks.fail("number", f"be from 1 to {TASKS}", self.number)

    def parts(self) -> Parts:
        return _stories(source(self.data_sets[0]), self.number)[0]

    def signature(self) -> Signature:
        _, words, answers = _stories(source(self.data_sets[0]), self.number)
        return Signature(kind=self.kind, input_size=1, output_size=len(answers), vocabularies=(words,), classes=answers)


@lru_cache(maxsize=4)
def _stories(path: Path, number: int) -> tuple[Parts, tuple[str, ...], tuple[str, ...]]:
    asked = {split: read_babi(path, number, split) for split in ("train", "test")}
    counts = Counter(word for question in asked["train"] for word, _ in _words(question))
    vocabulary = Vocabulary.of_counts(counts, special=(UNKNOWN,), unknown=UNKNOWN)
    answers = sorted({question.answer for questions in asked.values() for question in questions})
    train, test = (_examples(questions, vocabulary, answers) for questions in asked.values())
    return Parts(train, test), tuple(vocabulary.words(range(len(vocabulary)))), tuple(answers)


def _examples(questions: list[Question], vocabulary: Vocabulary, answers: list[str]) -> Examples:
    sequences = []
    for question in questions:
        words, times = zip(*_words(question), strict=True)
        sequences.append(np.stack([vocabulary.ids(words), np.array(times)], axis=1))
    return Examples(Ragged.of(sequences), np.array([answers.index(question.answer) for question in questions]))


def _words(question: Question) -> list[tuple[str, int]]:
    """The words of a story and of its question, each with its time."""
    last = len(question.statements) - 1
    story = [(word, n - last) for n, statement in enumerate(question.statements) for word in statement]
    return story + [(word, 1) for word in question.question]
