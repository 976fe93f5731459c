"""Classes for the nodes of trees: people's own trees in brackets, and the Stanford Sentiment Treebank."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.formats.brackets import read_brackets, read_tree_lines
from autapse.data.paths import require
from autapse.data.ragged import Ragged
from autapse.data.trees import Trees
from autapse.data.vocabulary import UNKNOWN, Vocabulary
from autapse.docstrings import inherited
from autapse.tasks.base import IGNORE, Data, Kind, Metric, Signature, TreeShape
from autapse.tasks.stored import Examples, Parts, Stored, held_out

Structure = Literal["given", "balanced", "left", "right"]
Nodes = Literal["nodes", "root"]
NOTHING = "<node>"  # the word of a node without one; its number is 0
MOST_CLASSES = 10_000


@dataclass(frozen=True, kw_only=True)
class TreeTask(Stored):
    """x is a tree, with words at its leaves; y is the label of every node.

    Args:
        structure: The trees to read: those given; or others over the same words, whose inner nodes have no targets:
            balanced, or a chain, left ((a b) c) or right (a (b c)).
        targets: Which labels are learned: those of all nodes, or only that of the root.
        scored: Which labels count in the error rate, by which the best weights are chosen. The summary has both.
        min_count: Words that occur less often in the training trees are read as <unk>.
        lower: Read all words in lower case.
    """

    structure: Structure = "given"
    targets: Nodes = "nodes"
    scored: Nodes = "root"
    min_count: int = 2
    lower: bool = True

    kind: ClassVar[Kind] = "trees"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent class"
    embedding_size: ClassVar[tuple[int, ...]] = (100,)

    def __init_subclass__(cls, **keywords: Any) -> None:
        """The help of a task also describes the options that all tasks with trees have."""
        super().__init_subclass__(**keywords)
        cls.__doc__ = inherited(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("structure", self.structure, get_args(Structure))
        checks.one_of("targets", self.targets, get_args(Nodes))
        checks.one_of("scored", self.scored, get_args(Nodes))
        if self.targets == "root" and self.scored == "nodes":
            checks.fail("scored", "be root if only roots have targets", self.scored)
        checks.integer("min_count", self.min_count, minimum=1)
        checks.boolean("lower", self.lower)

    @abstractmethod
    def trees(self) -> tuple[Trees, Trees | None, Trees | None]:
        """The trees for training, validation and test; None if there are none."""

    def read(self, trees: Trees) -> np.ndarray:  # [nodes of all, 2]
        """What a network reads of some trees: the word of each node, and how many rows later its parent is."""
        words = (NOTHING if word is None else word.lower() if self.lower else word for word in trees.words)
        return np.stack([self.vocabulary.ids(words), trees.distances], axis=1)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of the training trees."""
        train, _, _ = self.trees()
        words = Counter(word.lower() if self.lower else word for word in train.words if word is not None)
        known = {word: count for word, count in words.items() if count >= self.min_count and word != NOTHING}
        return Vocabulary.of_counts(known, special=(NOTHING, UNKNOWN), unknown=UNKNOWN)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The labels of all trees: numbers by value, then other labels."""
        labels = {label for part in self.trees() if part for label in part.labels if label is not None}
        if not 0 < len(labels) <= MOST_CLASSES:
            checks.fail("trees", f"have from 1 to {MOST_CLASSES} different labels", len(labels))
        return tuple(sorted(labels, key=lambda label: (not label.isdecimal(), label.zfill(20), label)))

    @cached_property
    def _parts(self) -> Parts:
        train, validation, test = self.trees()
        return Parts(
            self._examples_of(train),
            self._examples_of(train.take([]) if test is None else test),
            None if validation is None else self._examples_of(validation),
        )

    def _examples_of(self, trees: Trees) -> Examples:
        number = {label: n for n, label in enumerate(self.classes)}
        trees = trees.restructured(self.structure) if len(trees) else trees
        targets = np.array([IGNORE if label is None else number[label] for label in trees.labels], dtype=np.int64)
        if self.targets == "root":
            targets[trees.distances > 0] = IGNORE
        return Examples(Ragged(self.read(trees), trees.lengths), Ragged(targets, trees.lengths))

    def parts(self) -> Parts:
        return self._parts

    def signature(self) -> Signature:
        arity = max(part.restructured(self.structure).arity for part in self.trees() if part)
        return Signature(
            kind=self.kind,
            input_size=1,
            output_size=len(self.classes),
            vocabularies=(tuple(self.vocabulary.words(range(len(self.vocabulary)))),),
            classes=self.classes,
            tree=TreeShape(arity=max(arity, 1), targets=self.targets),
        )

    def baseline(self, data: Data) -> float:
        """The most frequent class of the scored nodes."""
        assert isinstance(data.targets, Ragged), "nodes are ragged"
        scored = data.targets.values if self.scored == "nodes" else data.targets.values[data.targets.starts[1:] - 1]
        counts = np.bincount(scored[scored != IGNORE])
        return float(1 - counts.max() / counts.sum())


def checked_roots(trees: Trees, places: list[str]) -> Trees:
    """Trees whose roots have labels; otherwise an error names the place of the tree."""
    for place, last in zip(places, trees.parents.starts[1:], strict=True):
        if trees.labels[last - 1] is None:
            checks.fail(place, "have a label at its root", trees.labels[last - 1])
    return trees


def read_trees(path: Path, labels: bool | None = True) -> tuple[Trees, list[str]]:
    """The trees of a file, and the place of each one for messages.

    Args:
        path: a text file with one tree in brackets per line.
        labels: whether each bracket starts with a label; None: unless some bracket starts with a bracket.

    Returns:
        The trees, and their places.
    """
    lines = read_tree_lines(path)
    return Trees.of_nodes(read_brackets(lines, labels)), [place for place, _ in lines]


@dataclass(frozen=True, kw_only=True)
class OwnTrees(TreeTask):
    """Learn the labels of your own trees: autapse run trees.txt --task trees.

    Args:
        path: The file: one tree per line in brackets, each with its label: (3 (2 It) (4 works)). A label _ is unknown.
        test: A file with the test trees; by default a share of the trees is held out.
        test_share: Share of the trees in the test set; 0 for no test set.
        validation: Share of the other trees that is held out for validation; 0 trains on all of them.
    """

    path: str
    test: str | None = None
    test_share: float = 0.1
    validation: float = 0.1

    name: ClassVar[str] = "trees"
    summary: ClassVar[str] = "learn the labels of your own trees: autapse run trees.txt --task trees"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "path", str(Path(self.path).absolute()))  # the run may be loaded from another folder
        if self.test is not None:
            object.__setattr__(self, "test", str(Path(self.test).absolute()))
        checks.number("test_share", self.test_share, low=0.0, high=0.9)

    def trees(self) -> tuple[Trees, Trees | None, Trees | None]:
        return self._trees

    @cached_property
    def _trees(self) -> tuple[Trees, Trees | None, Trees | None]:
        every = checked_roots(*read_trees(Path(self.path)))
        if self.test is not None:
            return every, None, checked_roots(*read_trees(Path(self.test)))
        needed = 1 + (self.validation > 0) + (self.test_share > 0)
        if len(every) < needed:
            checks.fail(self.path, f"have at least {needed} trees, one for each split", len(every))
        places = Examples(np.arange(len(every))[:, None, None], Ragged(every.parents.values, every.lengths))
        held = held_out(places, self.test_share, seed=0)  # the split does not depend on the seed of a run
        test = every.take(np.flatnonzero(held)) if held.any() else None
        return every.take(np.flatnonzero(~held)), None, test


@dataclass(frozen=True, kw_only=True)
class SST(TreeTask):
    """x is the parsed sentence of a film review; y is how positive each of its phrases is.

    The Stanford Sentiment Treebank (Socher et al. 2013). With two classes, neutral phrases have no target, and neutral
    sentences are left out.

    Args:
        sentiments: Number of classes: 5 from very negative (0) to very positive (4), or 2: negative and positive.
        validation: Above 0: the validation sentences of the data set; 0 trains on them too.
    """

    sentiments: int = 5

    name: ClassVar[str] = "sst"
    data_sets: ClassVar[tuple[str, ...]] = ("sst",)
    summary: ClassVar[str] = "say how positive each phrase of a parsed film review is"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sentiments not in (2, 5):
            checks.fail("sentiments", "be 2 or 5", self.sentiments)

    def trees(self) -> tuple[Trees, Trees | None, Trees | None]:
        return self._trees

    @cached_property
    def _trees(self) -> tuple[Trees, Trees | None, Trees | None]:
        folder = require(self.data_sets[0])
        train, validation, test = (self._file(folder / f"{name}.txt") for name in ("train", "dev", "test"))
        return train, validation, test

    def _file(self, path: Path) -> Trees:
        trees = checked_roots(*read_trees(path))
        if self.sentiments == 5:
            return trees
        names = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
        labels = tuple(names.get(label or "") for label in trees.labels)
        kept = [n for n, last in enumerate(trees.parents.starts[1:]) if labels[last - 1] is not None]
        return Trees(trees.parents, trees.words, labels).take(kept)
