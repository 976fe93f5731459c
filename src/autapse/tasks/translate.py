"""Translation of people's own pairs of texts, by characters or by words."""

from __future__ import annotations

import hashlib
import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np

from autapse import checks
from autapse.data.formats.pairs import Pair, read_pairs
from autapse.data.ragged import Ragged
from autapse.data.symbols import SEPARATORS, SymbolTable, Units, split_text
from autapse.data.vocabulary import UNKNOWN, Vocabulary
from autapse.docstrings import inherited
from autapse.tasks.base import IGNORE, Data, Kind, Metric, Signature, WrittenShape
from autapse.tasks.edits import edit_distances
from autapse.tasks.stored import Examples, Parts, Stored, held_out

SENTENCE = 3  # words of a typical text, from which on words are a choice
RARE = 0.1  # the largest share of words that occur once, if words are to be learned
ROOM = 1.5  # longest translation, relative to the longest target


class TextSide(NamedTuple):
    """The sources or the targets of all pairs."""

    symbols: SymbolTable
    units: Units
    reason: str  # why these units
    lengths: np.ndarray  # [N] symbols per text, of the training pairs
    unknown: float  # share of the symbols in the test pairs that are not known


@dataclass(frozen=True, kw_only=True)
class Translating(Stored):
    """x is a text, y is its translation: two sequences of characters or words.

    Pairs with the same source are in the same split, so that no source of the test set was seen in training.

    Args:
        units: What is read and written: characters or words, for both sides or for each. By default the training pairs
            decide: words, if texts have at least 3 words on average and few words occur only once.
        min_count: Symbols that occur less often in the training pairs are not learned; by default 1 for characters and
            2 for words. A rare word is read as <unk>, and never written.
        longest: Symbols of the longest text that is allowed.
        test_share: Share of the pairs in the test set; 0 for no test set.
        validation: Share of the other pairs that is held out for validation; 0 trains on all of them.
    """

    units: tuple[Units, ...] = ()
    min_count: int | None = None
    longest: int = 500
    test_share: float = 0.1
    validation: float = 0.1

    kind: ClassVar[Kind] = "translation"
    metric: ClassVar[Metric] = "symbol error rate"
    baseline_text: ClassVar[str] = "the most frequent target, or the source unchanged, whichever is better"

    def __init_subclass__(cls, **keywords: Any) -> None:
        """The help of a task also describes the options that all translation tasks have."""
        super().__init_subclass__(**keywords)
        cls.__doc__ = inherited(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.units
        object.__setattr__(self, "units", (given,) if isinstance(given, str) else tuple(given))
        for unit in self.units:
            checks.one_of("units", unit, get_args(Units))
        if len(self.units) > 2:
            checks.fail("units", "be one for both sides, or one for the sources and one for the targets", self.units)
        if self.min_count is not None:
            checks.integer("min_count", self.min_count, minimum=1)
        checks.integer("longest", self.longest, minimum=1)
        checks.number("test_share", self.test_share, low=0.0, high=0.9)

    @abstractmethod
    def pairs(self) -> tuple[list[Pair], list[Pair]]:
        """The pairs for training and for the test."""

    # What is read off the data ----------------------------------------------------------------------------------------

    @cached_property
    def sides(self) -> tuple[TextSide, TextSide]:
        """The symbols of the sources and of the targets."""
        units: tuple[Any, ...] = self.units or (None,)
        return self._side("source", units[0], (UNKNOWN,)), self._side("target", units[-1], ())

    def _side(self, name: str, units: Units | None, special: tuple[str, ...]) -> TextSide:
        train, test = ([getattr(pair, name) for pair in part] for part in self.pairs())
        units, reason = (units, "given") if units else choose_units(train)
        separator = SEPARATORS[units]
        texts, asked = ([split_text(text, separator) for text in part] for part in (train, test))
        self._check_lengths((*texts, *asked), units, name)
        counts = Counter(symbol for text in texts for symbol in text)
        least = self.min_count or (2 if units == "words" else 1)
        known = {symbol: count for symbol, count in counts.items() if count >= least}
        if not known:
            rule = f"leave some {units} to learn; the most frequent one occurs {max(counts.values())} times"
            checks.fail("min_count", rule, least)
        book = Vocabulary.of_counts(known, special=special)
        symbols = SymbolTable(book.words(range(len(book))), separator, other=0 if special else IGNORE)
        missing = sum(symbol not in known for text in asked for symbol in text) / max(sum(map(len, asked)), 1)
        return TextSide(symbols, units, reason, np.array([len(text) for text in texts]), missing)

    def _check_lengths(self, texts: Iterable[list[str]], units: Units, name: str) -> None:
        """Refuse texts that are too long to be learned in reasonable time."""
        for text, pair in zip(texts, itertools.chain(*self.pairs()), strict=True):
            if len(text) > self.longest:
                rule = f"have at most {self.longest} {units}"
                remedy = "Remove the pair, or allow longer texts: --longest."
                checks.fail(f"{pair.place}: the {name}", rule, len(text), remedy)

    @cached_property
    def _parts(self) -> Parts:
        train, test = (self._examples_of(pairs) for pairs in self.pairs())
        return Parts(train, test)

    def _examples_of(self, pairs: list[Pair]) -> Examples:
        source, target = (side.symbols for side in self.sides)
        inputs = [source.ids(pair.source)[:, None] for pair in pairs]
        targets = [target.ids(pair.target) for pair in pairs]
        empty = np.zeros(0, dtype=np.int64)
        return Examples(
            Ragged.of(inputs) if pairs else Ragged(empty[:, None], empty),
            Ragged.of(targets) if pairs else Ragged(empty, empty),
            groups_of(pairs),
        )

    # The contract of a task -------------------------------------------------------------------------------------------

    def parts(self) -> Parts:
        return self._parts

    def signature(self) -> Signature:
        source, target = self.sides
        return Signature(
            kind=self.kind,
            input_size=1,
            output_size=len(target.symbols.names),
            vocabularies=(source.symbols.names,),
            classes=target.symbols.names,
            length=int(np.median(source.lengths)),
            written=WrittenShape(
                depends="source",
                longest=int(ROOM * target.lengths.max()) + 1,
                separator=target.symbols.separator,
                source_separator=source.symbols.separator,
            ),
        )

    def baseline(self, data: Data) -> float:
        """The better one of two predictors, by the training pairs: a constant, and the source itself."""
        assert isinstance(data.inputs, Ragged), "texts are ragged"
        assert isinstance(data.targets, Ragged), "texts are ragged"
        train: Any = self._parts.train
        texts = Counter(train.targets[n].tobytes() for n in range(len(train)))
        constant = np.frombuffer(max(texts, key=lambda text: (texts[text], text)), dtype=np.int64)
        guesses = [lambda inputs: Ragged.of([constant] * len(inputs)), self._copied]
        best = min(guesses, key=lambda guess: edit_distances(guess(train.inputs), train.targets).sum())
        wrong = edit_distances(best(data.inputs), data.targets).sum()
        return float(wrong / max(data.targets.lengths.sum(), 1))

    def _copied(self, inputs: Ragged) -> Ragged:
        """The sources as targets."""
        source, target = (side.symbols for side in self.sides)
        same = source.separator == target.separator
        place = {name: n for n, name in enumerate(target.names)} if same else {}
        numbers = np.array([place.get(name, IGNORE) for name in source.names])
        return Ragged(numbers[inputs.values[:, 0]], inputs.lengths)


@dataclass(frozen=True, kw_only=True)
class OwnPairs(Translating):
    """Translate your own pairs of texts: autapse run pairs.tsv --task translate.

    Args:
        path: The file: .tsv with a source, a tab and a target per line, or .csv with the columns source and target.
        test: A file with the test pairs; by default a share of the pairs is held out.
    """

    path: str
    test: str | None = None

    name: ClassVar[str] = "translate"
    summary: ClassVar[str] = "translate your own pairs of texts: autapse run pairs.tsv --task translate"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "path", str(Path(self.path).absolute()))  # the run may be loaded from another folder
        if self.test is not None:
            object.__setattr__(self, "test", str(Path(self.test).absolute()))

    def pairs(self) -> tuple[list[Pair], list[Pair]]:
        return self._pairs

    @cached_property
    def _pairs(self) -> tuple[list[Pair], list[Pair]]:
        every = read_pairs(Path(self.path))
        both = divided(every, self.test_share) if self.test is None else (every, read_pairs(Path(self.test)))
        check_count(both, self.test_share if self.test is None else 0.0, self.validation, self.path)
        return both


@dataclass(frozen=True, init=False)
class TextPairs(Translating):
    """Translate pairs of texts in memory, from Python.

    Args:
        pairs: The pairs, (source, target) each.
        test: The test pairs; by default a share of the pairs is held out.
        sha256: Checksum of the pairs; set by the task. A resumed run must have the same checksum.
        options: The options of all translation tasks, by name.

    Example:
        >>> task = TextPairs([("one", "eno"), ("two", "owt"), ("six", "xis"), ("ten", "net")], test_share=0.25)
        >>> task.signature().classes, len(task.split("test", seed=0))
        (('e', 'n', 'o', 't', 'w'), 1)
    """

    sha256: str = ""

    name: ClassVar[str] = "text-pairs"
    summary: ClassVar[str] = "translate pairs of texts in memory; from Python only"

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]] | None = None,
        *,
        test: Sequence[tuple[str, str]] | None = None,
        sha256: str = "",
        **options: Any,
    ) -> None:
        """The config of a run has the checksum of the pairs, not the pairs."""
        fields = {name: field.default for name, field in self.__dataclass_fields__.items()}
        for name in options:
            checks.one_of("option", name, [name for name in fields if name != "sha256"])
        known: dict[str, Any] = {**fields, **options, "sha256": sha256}
        if pairs is not None:
            every = checked_pairs("pairs", pairs)
            share = known["test_share"]
            both = divided(every, share) if test is None else (every, checked_pairs("test", test))
            check_count(both, share if test is None else 0.0, known["validation"], "pairs")
            text = "\n".join(f"{pair.source}\t{pair.target}" for part in both for pair in part)
            known |= {"sha256": hashlib.sha256(text.encode()).hexdigest(), "_both": both}
        for name, value in known.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    def pairs(self) -> tuple[list[Pair], list[Pair]]:
        both: tuple[list[Pair], list[Pair]] | None = getattr(self, "_both", None)
        if both is None:
            remedy = "Pass them again: Trainer.resume(folder, task=TextPairs(pairs))."
            raise checks.InputError(f"This run was trained on texts in memory, which are not in its folder. {remedy}")
        return both


def choose_units(texts: list[str]) -> tuple[Units, str]:
    """Characters or words, and why.

    Args:
        texts: the training texts of one side.

    Returns:
        The units, and the reason in a few words.

    >>> choose_units(["hello", "world"])
    ('characters', 'texts have 1.0 words on average')
    """
    words = [split_text(text, " ") for text in texts]
    mean = sum(map(len, words)) / len(words)
    if mean < SENTENCE:
        return "characters", f"texts have {mean:.1f} words on average"
    counts = Counter(word for text in words for word in text)
    once = sum(count == 1 for count in counts.values()) / sum(counts.values())
    return ("characters" if once > RARE else "words"), f"{once:.1%} of the words occur once"


def checked_pairs(name: str, pairs: Any) -> list[Pair]:
    """Pairs of texts in what a user passes."""
    made = []
    for n, pair in enumerate(pairs):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(one, str) for one in pair)):
            checks.fail(f"{name}[{n}]", "be (source, target), two texts", pair, kind=checks.KindError)
        if not all(one.strip() for one in pair):
            checks.fail(f"{name}[{n}]", "have a source and a target that are not empty", pair)
        made.append(Pair(f"{name}[{n}]", *pair))
    if not made:
        checks.fail(name, "have at least one pair", 0)
    return made


def groups_of(pairs: list[Pair]) -> np.ndarray:  # [N]
    """The number of each pair's source. Pairs with the same source have the same number."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(pair.source, len(numbers)) for pair in pairs], dtype=np.int64)


def divided(pairs: list[Pair], share: float) -> tuple[list[Pair], list[Pair]]:
    """Training and test pairs. The split does not depend on the seed of a run."""
    places = np.arange(len(pairs))
    held = held_out(
        Examples(places[:, None, None], places.astype(np.float32)[:, None], groups_of(pairs)), share, seed=0
    )
    return [p for p, h in zip(pairs, held, strict=True) if not h], [p for p, h in zip(pairs, held, strict=True) if h]


def check_count(both: tuple[list[Pair], list[Pair]], share: float, validation: float, name: str) -> None:
    """Check that there is a source for training, and one for each other split that has a share."""
    needed = 1 + (validation > 0) + (share > 0)
    sources = len({pair.source for part in both for pair in part})
    if sources < needed:
        checks.fail(name, f"have at least {needed} different sources, one for each split", sources)
