"""The next word of newspaper text (paper: ERNN, table 2)."""

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
    """x_t is word t of one long text, <eos> after each sentence; y_t is the word after it.

    Back-propagation is cut every `span` words; the state is carried on, unless `carry` is off.
    """

    span: int = 35
    """Words between two cuts of back-propagation."""
    carry: bool = True
    """Carry the state from one span to the next; otherwise every span starts from zero."""

    name: ClassVar[str] = "ptb"
    data_sets: ClassVar[tuple[str, ...]] = ("ptb",)
    summary: ClassVar[str] = "guess the next word of newspaper text, 10,000 words"
    kind: ClassVar[Kind] = "language"
    metric: ClassVar[Metric] = "perplexity"
    baseline_text: ClassVar[str] = "every word by its frequency"
    embedding_size: ClassVar[tuple[int, ...]] = (256,)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("span", self.span, minimum=1)
        checks.boolean("carry", self.carry)

    def parts(self) -> Parts:
        return _text(source(self.data_sets[0]))[0]

    def signature(self) -> Signature:
        words = _text(source(self.data_sets[0]))[1]
        return Signature(kind=self.kind, input_size=1, output_size=len(words), vocabularies=(words,), classes=words)

    def split(self, split: Split, seed: int) -> Data:
        checks.one_of("split", split, SPLITS)
        text = dense(self._examples(split, checks.seed("seed", seed)).inputs)
        steps = len(text) - 1 if len(text) else 0
        shape = (1, steps) if steps else (0, 0)
        return Data(text[:steps].reshape(*shape, 1), text[1:].reshape(shape), span=self.span, carry=self.carry)

    def baseline(self, data: Data) -> float:
        """The perplexity of knowing how often each word comes, in this very text."""
        _, counts = np.unique(dense(data.targets), return_counts=True)
        chances = counts / counts.sum()
        return float(np.exp(-(chances * np.log(chances)).sum()))


@lru_cache(maxsize=1)
def _text(path: Path) -> tuple[Parts, tuple[str, ...]]:
    def parse() -> dict[str, np.ndarray]:
        text = read_ptb(path)
        return {**text.splits, "words": pack_strings(text.vocabulary.to_text().splitlines())}

    arrays = cached("ptb/words", 1, [path], parse)
    train, validation, test = (Examples(arrays[split], arrays[split]) for split in SPLITS)
    return Parts(train, test, validation), tuple(unpack_strings(arrays["words"]))
