"""The next word of newspaper text (paper: ERNN, table 2), or its next character."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.data.cache import cached, pack_strings, unpack_strings
from autapse.data.formats.ptb import read_ptb
from autapse.data.paths import source
from autapse.tasks.base import SPLITS, Data, Kind, Metric, Signature, Split, dense
from autapse.tasks.stored import Examples, Parts, Stored


@dataclass(frozen=True, kw_only=True)
class PTB(Stored):
    """x_t is word t of one long text, with <eos> after each sentence; y_t is the next word.

    Args:
        span: Words per span; back-propagation stops after every span.
        carry: Pass the state from one span to the next; otherwise every span starts from zero.
        validation: Any value above 0 uses the data set's validation set; 0 trains on it too.
    """

    span: int = 35
    carry: bool = True

    name: ClassVar[str] = "ptb"
    data_sets: ClassVar[tuple[str, ...]] = ("ptb",)
    summary: ClassVar[str] = "predict the next word of newspaper text, with a vocabulary of 10,000"
    kind: ClassVar[Kind] = "language"
    metric: ClassVar[Metric] = "perplexity"
    baseline_text: ClassVar[str] = "every word by its frequency"
    embedding_size: ClassVar[tuple[int, ...]] = (256,)
    characters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("span", self.span, minimum=1)
        checks.boolean("carry", self.carry)

    def parts(self) -> Parts:
        return _text(source(self.data_sets[0]), self.characters)[0]

    def signature(self) -> Signature:
        words = _text(source(self.data_sets[0]), self.characters)[1]
        return Signature(kind=self.kind, input_size=1, output_size=len(words), vocabularies=(words,), classes=words)

    def split(self, split: Split, seed: int) -> Data:
        checks.one_of("split", split, SPLITS)
        text = dense(self._examples(split, checks.seed("seed", seed)).inputs)
        steps = len(text) - 1 if len(text) else 0
        shape = (1, steps) if steps else (0, 0)
        return Data(text[:steps].reshape(*shape, 1), text[1:].reshape(shape), span=self.span, carry=self.carry)

    def baseline(self, data: Data) -> float:
        """The perplexity of the word frequencies of this text."""
        return float(np.exp(_entropy(data)))


@dataclass(frozen=True, kw_only=True)
class PTBCharacters(PTB):
    """x_t is character t of one long text, with <eos> after each sentence; y_t is the next character.

    Args:
        span: Characters per span; back-propagation stops after every span.
        carry: Pass the state from one span to the next; otherwise every span starts from zero.
        validation: Any value above 0 uses the data set's validation set; 0 trains on it too.
    """

    span: int = 150

    name: ClassVar[str] = "ptb-characters"
    summary: ClassVar[str] = "predict the next character of newspaper text"
    metric: ClassVar[Metric] = "bits per character"
    baseline_text: ClassVar[str] = "every character by its frequency"
    embedding_size: ClassVar[tuple[int, ...]] = (32,)
    characters: ClassVar[bool] = True

    def baseline(self, data: Data) -> float:
        """The entropy of the character frequencies of this text, in bits."""
        return float(_entropy(data) / np.log(2))


def _entropy(data: Data) -> float:
    """The entropy of the frequencies of words or characters, in nats."""
    _, counts = np.unique(dense(data.targets), return_counts=True)
    chances = counts / counts.sum()
    return float(-(chances * np.log(chances)).sum())


@lru_cache(maxsize=2)
def _text(path: Path, characters: bool) -> tuple[Parts, tuple[str, ...]]:
    def parse() -> dict[str, np.ndarray]:
        text = read_ptb(path, characters)
        return {**text.splits, "words": pack_strings(text.vocabulary.to_text().splitlines())}

    arrays = cached("ptb/characters" if characters else "ptb/words", 1, [path], parse)
    train, validation, test = (Examples(arrays[split], arrays[split]) for split in SPLITS)
    return Parts(train, test, validation), tuple(unpack_strings(arrays["words"]))
