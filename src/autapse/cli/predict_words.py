"""Read text for `autapse predict`: sentences to tag, or reviews to rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autapse import checks
from autapse.data.formats.conllu import TaggedSentence, read_words
from autapse.data.formats.reviews import tokenise
from autapse.data.formats.table import SequenceFile
from autapse.data.formats.timeseries import suffix
from autapse.data.ragged import Ragged
from autapse.data.reading import read_bytes, text_lines
from autapse.data.vocabulary import UNKNOWN, Vocabulary
from autapse.tasks import POS, Signature, Task
from autapse.tasks.pos import SUFFIXES, encode
from autapse.tasks.pos import read_sentences as read_labelled
from autapse.tasks.reviews import ReviewTask

Sentences = list[tuple[str, ...]]


def read_text(path: Path, task: Task, signature: Signature) -> tuple[SequenceFile, Sentences | None]:
    """The sequences of a text file and, if its words are to be tagged, the words of each sentence."""
    vocabularies = [Vocabulary(words, UNKNOWN if UNKNOWN in words else None) for words in signature.vocabularies]
    if isinstance(task, POS):
        sentences = read_sentences(path, task)
        _check_labels(path, sentences, signature.classes)
        return _tagged(sentences, vocabularies)
    if isinstance(task, ReviewTask):
        checks.one_of(f"The ending of {path.name}", suffix(path), (".txt",))
        return _reviews(path, task, vocabularies[0]), None
    remedy = "sample" if signature.kind == "language" else "eval"
    raise checks.InputError(f"`autapse predict` does not support runs on {task.name}. Try `autapse {remedy}`.")


def read_sentences(path: Path, task: POS) -> list[TaggedSentence]:
    """Sentences of a file, with the kind of tags that the task uses; without tags if the file has none."""
    kind = suffix(path)
    checks.one_of(f"The ending of {path.name}", kind, SUFFIXES[: len(SUFFIXES) // 2])
    labelled = kind in (".conllu", ".mrg")
    sentences = read_labelled(path, task.tags, task.column) if labelled else read_words(path, task.column)
    if not sentences:
        raise checks.InputError(f"{path} has no sentence.")
    return sentences


def _check_labels(path: Path, sentences: list[TaggedSentence], classes: tuple[str, ...]) -> None:
    """Words in a row would be read as one word and its labels."""
    labels = {tag for sentence in sentences for tag in sentence.tags}
    if labels and not labels & {*classes, "_"}:
        reason = f"its labels, such as {min(labels)!r}, are not those of the run"
        raise checks.InputError(f"{path}: {reason}. Write one word per line and a blank line after each sentence.")


def _tagged(sentences: list[TaggedSentence], vocabularies: list[Vocabulary]) -> tuple[SequenceFile, Sentences]:
    lengths = np.array([len(sentence.words) for sentence in sentences], dtype=np.int64)
    inputs = encode([word for sentence in sentences for word in sentence.words], vocabularies)
    tags = [list(sentence.tags) for sentence in sentences]
    known = any(tag != "_" for row in tags for tag in row)  # "_" means no tag in CoNLL-U
    words = [sentence.words for sentence in sentences]
    return SequenceFile(Ragged(inputs, lengths), targets=tags if known else None), words


def _reviews(path: Path, task: ReviewTask, vocabulary: Vocabulary) -> SequenceFile:
    lines = text_lines(read_bytes(path).removesuffix(b"\n") + b"\n", path)
    ids = [vocabulary.ids(tokenise(line)[-task.length :] or [UNKNOWN]) for line in lines]
    return SequenceFile(Ragged.of([review[:, None] for review in ids]))
