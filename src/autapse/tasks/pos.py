"""Parts of speech, with the input of the paper on implicitly-defined networks (section 3.2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.cache import cached, pack_strings, unpack_strings
from autapse.data.formats.conllu import TaggedSentence, read_conllu, read_tagged_lines
from autapse.data.paths import source
from autapse.data.ragged import Ragged
from autapse.data.vocabulary import UNKNOWN, Vocabulary
from autapse.tasks.base import SPLITS, Kind, Metric, Signature, Split
from autapse.tasks.stored import Examples, Parts, Stored

Tags = Literal["upos", "xpos"]
FILES = {"train": "train", "validation": "dev", "test": "test"}
AFFIXES = ((2, 3, 4), 2000)  # lengths; the most frequent prefixes and suffixes of each
COLUMNS = 1 + 2 * len(AFFIXES[0])  # of words: the word itself, its prefixes, its suffixes
SHAPES = 8


@dataclass(frozen=True, kw_only=True)
class POS(Stored):
    """x_t is a word of a sentence: the word in small letters, its prefixes and suffixes of two to four letters, and
    eight signs of its shape; y_t is its tag.
    """

    tags: Tags = "upos"
    """Universal tags, or the treebank's own."""
    folder: str | None = None
    """Your own sentences instead of the English Web Treebank: a folder with train, dev and test files, .conllu, or .txt
    with a word and its tag per line and a blank line after each sentence."""
    min_count: int = 2
    """How often a word must be in the training part to be told from others."""

    name: ClassVar[str] = "pos"
    data_sets: ClassVar[tuple[str, ...]] = ("ud-english-ewt",)
    summary: ClassVar[str] = "name the part of speech of every word of a sentence"
    kind: ClassVar[Kind] = "tagging"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent tag"
    embedding_size: ClassVar[tuple[int, ...]] = (320, 20)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("tags", self.tags, get_args(Tags))
        checks.integer("min_count", self.min_count, minimum=1)
        if self.folder is not None:
            object.__setattr__(self, "folder", str(Path(self.folder).resolve()))

    def parts(self) -> Parts:
        return self._read()[0]

    def signature(self) -> Signature:
        _, vocabularies, tags = self._read()
        columns = len(vocabularies) + SHAPES
        return Signature(
            kind=self.kind, input_size=columns, output_size=len(tags), vocabularies=vocabularies, classes=tags
        )

    def _read(self) -> tuple[Parts, tuple[tuple[str, ...], ...], tuple[str, ...]]:
        folder = source(self.data_sets[0]) if self.folder is None else Path(self.folder)
        return _treebank(folder, self.tags, self.min_count)


@lru_cache(maxsize=2)
def _treebank(folder: Path, tags: Tags, min_count: int) -> tuple[Parts, tuple[tuple[str, ...], ...], tuple[str, ...]]:
    files = {split: _file(folder, word) for split, word in FILES.items()}
    key = re.sub(r"[^\w.-]", "_", f"{folder.name}-{tags}-{min_count}")
    arrays = cached(f"pos/{key}", 1, list(files.values()), lambda: _parsed(files, tags, min_count))
    train, validation, test = (_examples(arrays, split) for split in SPLITS)
    words = tuple(tuple(unpack_strings(arrays[f"words_{n}"])) for n in range(COLUMNS))
    return Parts(train, test, validation), words, tuple(unpack_strings(arrays["tags"]))


def _examples(arrays: dict[str, np.ndarray], split: Split) -> Examples:
    lengths = arrays[f"{split}_lengths"]
    return Examples(Ragged(arrays[f"{split}_inputs"], lengths), Ragged(arrays[f"{split}_targets"], lengths))


def _parsed(files: dict[str, Path], tags: Tags, min_count: int) -> dict[str, np.ndarray]:
    sentences = {split: _sentences(file, tags) for split, file in files.items()}
    vocabularies = word_vocabularies((word for s in sentences["train"] for word in s.words), min_count)
    names = sorted({tag for all_of_it in sentences.values() for sentence in all_of_it for tag in sentence.tags})
    arrays = {f"words_{n}": pack_strings(v.words(range(len(v)))) for n, v in enumerate(vocabularies)}
    arrays["tags"] = pack_strings(names)
    number = {name: n for n, name in enumerate(names)}
    for split, own in sentences.items():
        arrays[f"{split}_lengths"] = np.array([len(sentence.words) for sentence in own], dtype=np.int64)
        arrays[f"{split}_inputs"] = encode([word for sentence in own for word in sentence.words], vocabularies)
        arrays[f"{split}_targets"] = np.array([number[tag] for s in own for tag in s.tags], dtype=np.int64)
    return arrays


def _file(folder: Path, word: str) -> Path:
    """The one file of a part: en_ewt-ud-dev.conllu, dev.txt, …"""
    found = [p for suffix in ("conllu", "txt", "conllu.gz", "txt.gz") for p in sorted(folder.glob(f"*{word}.{suffix}"))]
    if not found:
        raise checks.InputError(
            f"{folder} has no {word}.conllu and no {word}.txt. It must have train, dev and test files, .conllu or .txt."
        )
    return found[0]


def _sentences(path: Path, tags: Tags) -> list[TaggedSentence]:
    if ".conllu" in path.suffixes:
        return [TaggedSentence(s.forms, s.upos if tags == "upos" else s.xpos) for s in read_conllu(path)]
    return read_tagged_lines(path)


def word_vocabularies(words: Iterable[str], min_count: int) -> list[Vocabulary]:
    """One for the words in small letters, then one for each prefix and each suffix."""
    counts = Counter(words)
    small: Counter[str] = Counter()
    affixes: list[Counter[str]] = [Counter() for _ in _affixes("")]
    for word, count in counts.items():
        small[word.lower()] += count
        for counter, affix in zip(affixes, _affixes(word), strict=True):
            counter[affix] += count
    frequent = {word: count for word, count in small.items() if count >= min_count}
    made = [Vocabulary.of_counts(frequent, special=(UNKNOWN,), unknown=UNKNOWN)]
    for counter in affixes:
        counter.pop("", None)  # of words too short to have it
        made.append(Vocabulary.of_counts(counter, AFFIXES[1] + 1, special=(UNKNOWN,), unknown=UNKNOWN))
    return made


def encode(words: Sequence[str], vocabularies: Sequence[Vocabulary]) -> np.ndarray:  # [N, 1 + 6 + 8] int32
    """What the network reads of each word."""
    columns = [vocabularies[0].ids(word.lower() for word in words)]
    affixes = zip(*(_affixes(word) for word in words), strict=True)
    columns += [v.ids(column) for v, column in zip(vocabularies[1:], affixes, strict=True)]
    shapes = np.array([_shape(word) for word in words])
    return np.concatenate([np.stack(columns, axis=1), shapes], axis=1).astype(np.int32)


def _affixes(word: str) -> list[str]:
    """Prefixes of each length, then suffixes; nothing where the word is shorter."""
    small, lengths = word.lower(), AFFIXES[0]
    whole = [small if len(small) >= n else "" for n in lengths]
    return [w[:n] for w, n in zip(whole, lengths, strict=True)] + [w[-n:] for w, n in zip(whole, lengths, strict=True)]


def _shape(word: str) -> tuple[bool, ...]:
    """Eight signs: digits, symbols and case."""
    marks = [not c.isalnum() for c in word]
    return (
        any(c.isdigit() for c in word),
        word.replace(",", "").replace(".", "").isdigit(),
        any(marks),
        all(marks),
        "-" in word,
        word[:1].isupper(),
        word.isupper(),
        any(c.isupper() for c in word[1:]) and not word.isupper(),
    )
