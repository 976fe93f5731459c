"""What somebody thinks, from the review that they wrote (paper: ERNN, section 4: Yelp-5)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.data.cache import cached, pack_strings, unpack_strings
from autapse.data.formats.reviews import Review, iterate_imdb, iterate_yelp
from autapse.data.paths import source
from autapse.data.ragged import Ragged
from autapse.data.vocabulary import UNKNOWN, Vocabulary
from autapse.tasks.base import Kind, Metric, Signature
from autapse.tasks.stored import Examples, Parts, Stored


@dataclass(frozen=True, kw_only=True)
class ReviewTask(Stored):
    """The words of a review, the most frequent ones of the training part by name; y is its rating."""

    vocabulary_size: int = 20_000
    """Words that are told apart; all others are one."""
    length: int = 300
    """Words of a review that are read, its last ones."""

    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent rating"
    embedding_size: ClassVar[tuple[int, ...]] = (128,)
    classes: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("vocabulary_size", self.vocabulary_size, minimum=2)
        checks.integer("length", self.length, minimum=1)

    @abstractmethod
    def _read(self) -> tuple[Parts, tuple[str, ...]]:
        """The parts and the words."""

    def parts(self) -> Parts:
        return self._read()[0]

    def signature(self) -> Signature:
        words, classes = self._read()[1], self.classes
        return Signature(kind=self.kind, input_size=1, output_size=len(classes), classes=classes, vocabularies=(words,))


@dataclass(frozen=True, kw_only=True)
class Yelp(ReviewTask):
    """The words of a review; y is its stars, one to five."""

    limit: int = 500_000
    """Reviews to read of each part; the papers have 500,000 of each."""

    name: ClassVar[str] = "yelp"
    data_sets: ClassVar[tuple[str, ...]] = ("yelp",)
    summary: ClassVar[str] = "give the stars of a review from its words"
    classes: ClassVar[tuple[str, ...]] = tuple("12345")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("limit", self.limit, minimum=2)

    def _read(self) -> tuple[Parts, tuple[str, ...]]:
        return _parsed("yelp", source(self.data_sets[0]), self.vocabulary_size, self.length, self.limit)


@dataclass(frozen=True, kw_only=True)
class IMDB(ReviewTask):
    """The words of a film's review; y is whether it is good."""

    name: ClassVar[str] = "imdb"
    data_sets: ClassVar[tuple[str, ...]] = ("imdb",)
    summary: ClassVar[str] = "tell a good film review from a bad one by its words"
    classes: ClassVar[tuple[str, ...]] = ("bad", "good")

    def _read(self) -> tuple[Parts, tuple[str, ...]]:
        return _parsed("imdb", source(self.data_sets[0]), self.vocabulary_size, self.length, None)


@lru_cache(maxsize=1)
def _parsed(
    name: str, path: Path, vocabulary_size: int, length: int, limit: int | None
) -> tuple[Parts, tuple[str, ...]]:
    def parse() -> dict[str, np.ndarray]:
        # Upstream's JSON has no parts: the first half of what is read trains, the other tests.
        reviews = iterate_imdb(path) if limit is None else iterate_yelp(path, 2 * limit)
        return _numbered(reviews, vocabulary_size, length, limit)

    key = f"{name}/words-{vocabulary_size}-{length}-{limit or 'all'}"
    arrays = cached(key, 1, [path], parse)
    train, test = (
        Examples(Ragged(arrays[f"{part}_ids"][:, None], arrays[f"{part}_lengths"]), arrays[f"{part}_labels"])
        for part in ("train", "test")
    )
    return Parts(train, test), tuple(unpack_strings(arrays["words"]))


def _numbered(reviews: Iterable[Review], vocabulary_size: int, length: int, limit: int | None) -> dict[str, np.ndarray]:
    """Reviews as numbers, read once: a million of them as words would not fit into memory."""
    seen: dict[str, int] = {}
    read: dict[str, tuple[list[np.ndarray], list[int]]] = {part: ([], []) for part in ("train", "test", "all")}
    for review in reviews:
        texts, labels = read[review.split]
        if limit is None or review.split == "all" or len(texts) < limit:
            texts.append(np.array([seen.setdefault(word, len(seen)) for word in review.words], dtype=np.int32))
            labels.append(review.label)
    texts, labels = read.pop("all")
    if texts:
        middle = len(texts) // 2
        read = {"train": (texts[:middle], labels[:middle]), "test": (texts[middle:], labels[middle:])}
    words = list(seen)
    counts = np.bincount(np.concatenate(read["train"][0]), minlength=len(words))
    frequent = {word: int(count) for word, count in zip(words, counts, strict=True) if count}
    vocabulary = Vocabulary.of_counts(frequent, vocabulary_size, special=(UNKNOWN,), unknown=UNKNOWN)
    number = vocabulary.ids(words).astype(np.int32)
    arrays = {"words": pack_strings(vocabulary.to_text().splitlines())}
    unknown = vocabulary.ids([UNKNOWN]).astype(np.int32)
    for part, (texts, labels) in read.items():
        # A blank review is one unknown word: the network must say something all the same.
        ragged = Ragged.of([number[text[-length:]] if len(text) else unknown for text in texts])
        arrays |= {f"{part}_ids": ragged.values, f"{part}_lengths": ragged.lengths}
        arrays[f"{part}_labels"] = np.array(labels, dtype=np.int64)
    return arrays
