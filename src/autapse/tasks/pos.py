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
from autapse.data.formats.conllu import TaggedSentence, read_conllu, read_conllu_column, read_tagged_lines
from autapse.data.formats.treebank import read_treebank
from autapse.data.paths import source
from autapse.data.ragged import Ragged
from autapse.data.vocabulary import UNKNOWN, Vocabulary
from autapse.tasks.base import Kind, Metric, Signature, Split
from autapse.tasks.stored import Examples, Parts, Stored

Tags = Literal["upos", "xpos"]
Files = dict[Split, list[Path]]
FILES: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("dev", "valid", "validation", "testa"),
    "test": ("test", "testb"),
}
SUFFIXES = tuple(
    f".{kind}{pack}" for pack in ("", ".gz") for kind in ("conllu", "mrg", "txt", "conll", "bio", "iob", "iob2")
)
SECTIONS: dict[Split, range] = {"train": range(19), "validation": range(19, 22), "test": range(22, 25)}  # of the WSJ
TEST_SHARE = 0.1  # of the sentences, if there is no test file
AFFIXES = ((2, 3, 4), 2000)  # lengths; the most frequent prefixes and suffixes of each
COLUMNS = 1 + 2 * len(AFFIXES[0])  # word columns: the word itself, its prefixes, its suffixes
SHAPES = 8


@dataclass(frozen=True, kw_only=True)
class POS(Stored):
    """x_t is a word in lower case, its prefixes and suffixes of 2 to 4 letters, and 8 features of its shape; y_t: tag.

    Args:
        tags: The tags to predict: upos (universal tags) or xpos (the treebank's own tags).
        folder: A folder with your own sentences, instead of the English Web Treebank: train, dev and test files,
            .conllu, .mrg, .conll or .txt; or one file. A .txt file has one word and its tags per line and a blank line
            after each sentence; a .mrg file has parsed sentences in brackets. Or the folder of the Wall Street Journal
            in the Penn Treebank, whose sections 00 to 24 are folders with .mrg files.
        column: The column of your files with the labels, such as 2 for the chunks of CoNLL-2000 or 3 for the names of
            CoNLL-2003. Column 0 has the word (.conllu: the number of the word).
        min_count: Rarer words of the training set are read as <unk>.
        validation: If there is a dev file, any value above 0 uses it for validation, and 0 trains on it too. Otherwise,
            share of the training sentences that is held out for validation.
    """

    tags: Tags = "upos"
    folder: str | None = None
    column: int | None = None
    min_count: int = 2

    name: ClassVar[str] = "pos"
    data_sets: ClassVar[tuple[str, ...]] = ("ud-english-ewt",)
    summary: ClassVar[str] = "predict the part of speech of every word of a sentence"
    kind: ClassVar[Kind] = "tagging"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent tag"
    embedding_size: ClassVar[tuple[int, ...]] = (320, 20)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("tags", self.tags, get_args(Tags))
        checks.integer("min_count", self.min_count, minimum=1)
        if self.column is not None:
            checks.integer("column", self.column, minimum=1)
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
        return _treebank(folder, self.tags, self.column, self.min_count)


@lru_cache(maxsize=2)
def _treebank(
    folder: Path, tags: Tags, column: int | None, min_count: int
) -> tuple[Parts, tuple[tuple[str, ...], ...], tuple[str, ...]]:
    files = _files(folder)
    key = re.sub(r"[^\w.-]", "_", f"{folder.name}-{tags if column is None else column}-{min_count}")
    arrays = cached(
        f"pos/{key}",
        2,
        [file for own in files.values() for file in own],
        lambda: _parsed(files, tags, column, min_count),
    )
    train, test = _examples(arrays, "train"), _examples(arrays, "test")
    validation = _examples(arrays, "validation") if "validation" in files else None
    words = tuple(tuple(unpack_strings(arrays[f"words_{n}"])) for n in range(COLUMNS))
    return Parts(train, test, validation), words, tuple(unpack_strings(arrays["tags"]))


def _examples(arrays: dict[str, np.ndarray], split: Split) -> Examples:
    lengths = arrays[f"{split}_lengths"]
    return Examples(Ragged(arrays[f"{split}_inputs"], lengths), Ragged(arrays[f"{split}_targets"], lengths))


def _parsed(files: Files, tags: Tags, column: int | None, min_count: int) -> dict[str, np.ndarray]:
    sentences = {split: [s for file in own for s in read_sentences(file, tags, column)] for split, own in files.items()}
    if "test" not in sentences:
        sentences["train"], sentences["test"] = _divided(files["train"][0], sentences["train"])
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


def _divided(path: Path, sentences: list[TaggedSentence]) -> tuple[list[TaggedSentence], list[TaggedSentence]]:
    """Training and test sentences, if there is no test file. The split does not depend on the seed of a run."""
    if len(sentences) < 3:
        checks.fail(str(path), "have at least three sentences, for training, validation and test", len(sentences))
    order = np.random.default_rng(0).permutation(len(sentences))
    held = set(order[: max(1, round(TEST_SHARE * len(sentences)))].tolist())
    train = [sentence for n, sentence in enumerate(sentences) if n not in held]
    return train, [sentences[n] for n in sorted(held)]


def _files(folder: Path) -> Files:
    """The files of each split that a folder has: en_ewt-ud-dev.conllu, dev.txt, eng.testa, the sections 19 to 21, …"""
    if folder.is_file():
        return {"train": [folder]}
    files = {split: [path] for split, words in FILES.items() if (path := _file(folder, words)) is not None}
    if not files:
        files = {split: own for split, numbers in SECTIONS.items() if (own := _sections(folder, numbers))}
    if "train" not in files:
        remedy = "dev and test files are optional."
        raise checks.InputError(f"{folder} has no train.conllu, train.mrg or train.txt. {remedy}")
    return files


def _sections(folder: Path, numbers: range) -> list[Path]:
    """The files of some sections of the Wall Street Journal."""
    return [path for n in numbers for path in sorted((folder / f"{n:02}").glob("*.mrg"))]


def _file(folder: Path, words: Sequence[str]) -> Path | None:
    patterns = [f"*{word}{suffix}" for word in words for suffix in SUFFIXES] + [f"*.{word}" for word in words]
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()), None)


def read_sentences(path: Path, tags: Tags, column: int | None) -> list[TaggedSentence]:
    """The sentences of a file with their labels."""
    if ".mrg" in path.suffixes:
        if column is not None:
            checks.fail("column", "be omitted for .mrg files, which have one tag per word", column)
        return read_treebank(path)
    if ".conllu" not in path.suffixes:
        return read_tagged_lines(path, column)
    return [s.tagged(tags) for s in read_conllu(path)] if column is None else read_conllu_column(path, column)


def word_vocabularies(words: Iterable[str], min_count: int) -> list[Vocabulary]:
    """One vocabulary for the words in lower case, then one for each length of prefixes and of suffixes."""
    counts = Counter(words)
    lower: Counter[str] = Counter()
    affixes: list[Counter[str]] = [Counter() for _ in _affixes("")]
    for word, count in counts.items():
        lower[word.lower()] += count
        for counter, affix in zip(affixes, _affixes(word), strict=True):
            counter[affix] += count
    frequent = {word: count for word, count in lower.items() if count >= min_count}
    made = [Vocabulary.of_counts(frequent, special=(UNKNOWN,), unknown=UNKNOWN)]
    for counter in affixes:
        counter.pop("", None)  # from words that are too short
        made.append(Vocabulary.of_counts(counter, AFFIXES[1] + 1, special=(UNKNOWN,), unknown=UNKNOWN))
    return made


def encode(words: Sequence[str], vocabularies: Sequence[Vocabulary]) -> np.ndarray:  # [N, 1 + 6 + 8] int32
    """The input of the network for each word: ids of the word and its affixes, then its shape."""
    columns = [vocabularies[0].ids(word.lower() for word in words)]
    affixes = zip(*(_affixes(word) for word in words), strict=True)
    columns += [v.ids(column) for v, column in zip(vocabularies[1:], affixes, strict=True)]
    shapes = np.array([_shape(word) for word in words])
    return np.concatenate([np.stack(columns, axis=1), shapes], axis=1).astype(np.int32)


def _affixes(word: str) -> list[str]:
    """The prefixes of each length, then the suffixes; empty if the word is shorter."""
    lower, lengths = word.lower(), AFFIXES[0]
    whole = [lower if len(lower) >= n else "" for n in lengths]
    return [w[:n] for w, n in zip(whole, lengths, strict=True)] + [w[-n:] for w, n in zip(whole, lengths, strict=True)]


def _shape(word: str) -> tuple[bool, ...]:
    """Eight features of the shape: digits, symbols and case."""
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
