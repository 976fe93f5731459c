"""Trees with words and labels: from brackets, from nested lists, from parents, or over the words of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autapse import checks
from autapse.data.formats.brackets import Node, nodes_of, read_brackets
from autapse.data.ragged import Ragged

ROOT = -1  # the parent of a root
STRUCTURES = ("given", "balanced", "left", "right")


@dataclass(frozen=True, eq=False)
class Trees:
    """N trees. The nodes of each tree are in post-order: children before their parent, the root last.

    Args:
        parents: ragged, the place of each node's parent in its tree; −1 for the root.
        words: the word of each node of all trees; None for a node without one.
        labels: the label of each node of all trees; None for a node without one.

    >>> trees = Trees.of_brackets(["(4 (3 really) (3 good))", "(1 dull)"])
    >>> len(trees), trees.parents[0].tolist(), trees.words[:2], trees.labels[2]
    (2, [2, 2, -1], ('really', 'good'), '4')
    >>> trees.brackets(0)
    '(4 (3 really) (3 good))'
    """

    parents: Ragged
    words: tuple[str | None, ...]
    labels: tuple[str | None, ...]

    # Where trees come from --------------------------------------------------------------------------------------------

    @classmethod
    def of_brackets(cls, lines: Iterable[str], labels: bool | None = None, source: str = "line") -> Trees:
        """Trees in brackets, one per line: `(3 (2 It) (4 works))`, or without labels `((It really) works)`.

        Args:
            lines: the trees. Empty lines do not count.
            labels: whether each bracket starts with a label; the label `_` means unknown. None: there are labels,
                unless some bracket starts with a bracket.
            source: what the lines are, for error messages: `line 3`.
        """
        numbered = [(f"{source} {n}", line) for n, line in enumerate(lines, 1) if line.strip()]
        return cls.of_nodes(read_brackets(numbered, labels))

    @classmethod
    def of_nested(cls, trees: Sequence[Any]) -> Trees:
        """Trees as nested tuples or lists of words: `(("the", "cat"), "sleeps")`.

        Args:
            trees: the trees. A word alone is a tree of one node.
        """
        return cls.of_nodes([nodes_of(tree, f"trees[{n}]") for n, tree in enumerate(trees)])

    @classmethod
    def of_parents(
        cls, parents: Sequence[Sequence[int]], words: Sequence[Any] = (), labels: Sequence[Any] = ()
    ) -> Trees:
        """Trees by the parents of their nodes, in any order.

        Args:
            parents: for each tree and each of its nodes, the place of the node's parent in the tree; −1 for the root.
            words: for each tree, the words of its nodes; None for a node without one.
            labels: the same for the labels.
        """
        made = []
        for n, tree in enumerate(parents):
            rows = [column[n] if len(column) else [None] * len(tree) for column in (words, labels)]
            if any(len(row) != len(tree) for row in rows):
                checks.fail(f"words and labels of trees[{n}]", f"have one entry for each of {len(tree)} nodes", rows)
            made.append(_in_post_order(f"parents[{n}]", list(tree), *rows))
        return cls.of_nodes(made)

    @classmethod
    def over(cls, sentences: Iterable[Sequence[str]], structure: str = "balanced") -> Trees:
        """Binary trees over the words of sentences.

        Args:
            sentences: lists of words.
            structure: `balanced`, or a chain: `left`, ((a b) c), or `right`, (a (b c)).
        """
        build = _BUILT[checks.one_of("structure", structure, STRUCTURES[1:])]
        made = []
        for n, words in enumerate(sentences):
            if isinstance(words, str) or not len(words):
                checks.fail(f"sentences[{n}]", "be a list with at least one word", words)
            made.append(_over(words, build(len(words))))
        return cls.of_nodes(made)

    @classmethod
    def of_nodes(cls, trees: Sequence[list[Node]]) -> Trees:
        """Trees whose nodes are in post-order."""
        if not trees:
            checks.fail("trees", "have at least one tree", 0)
        parents = np.array([node.parent for tree in trees for node in tree], dtype=np.int64)
        lengths = np.array([len(tree) for tree in trees], dtype=np.int64)
        words = tuple(node.word for tree in trees for node in tree)
        return cls(Ragged(parents, lengths), words, tuple(node.label for tree in trees for node in tree))

    # What they are ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def lengths(self) -> np.ndarray:  # [N]
        """The number of nodes of each tree."""
        return self.parents.lengths

    @cached_property
    def flat_parents(self) -> np.ndarray:  # [nodes of all]
        """The place of each node's parent among the nodes of all trees; −1 for roots. This is what `Tree` takes."""
        local, shift = self.parents.values, np.repeat(self.parents.starts[:-1], self.lengths)
        return np.where(local == ROOT, ROOT, local + shift)

    @property
    def distances(self) -> np.ndarray:  # [nodes of all]
        """How many places after each node its parent is; 0 for roots."""
        flat = self.flat_parents
        return np.where(flat == ROOT, 0, flat - np.arange(len(flat)))

    @property
    def arity(self) -> int:
        """The largest number of children of a node."""
        flat = self.flat_parents
        return int(np.bincount(flat[flat >= 0], minlength=1).max())

    def sentence(self, n: int) -> tuple[str, ...]:
        """The words of a tree, in order."""
        first, last = self.parents.starts[n], self.parents.starts[n + 1]
        return tuple(word for word in self.words[first:last] if word is not None)

    def take(self, index: Iterable[int]) -> Trees:
        """The trees at `index`, in this order."""
        chosen = list(index)
        spans = [slice(self.parents.starts[n], self.parents.starts[n + 1]) for n in chosen]
        words, labels = (tuple(one for span in spans for one in column[span]) for column in (self.words, self.labels))
        return Trees(self.parents.take(chosen), words, labels)

    def restructured(self, structure: str) -> Trees:
        """Other trees over the same words, which keep the labels of the words and of the roots."""
        if checks.one_of("structure", structure, STRUCTURES) == "given":
            return self
        made = Trees.over([self.sentence(n) for n in range(len(self))], structure)
        labels: list[str | None] = [None] * len(made.words)
        for n in range(len(self)):
            old, new = (slice(t.parents.starts[n], t.parents.starts[n + 1]) for t in (self, made))
            of_words = iter([label for label, word in zip(self.labels[old], self.words[old], strict=True) if word])
            labels[new] = [None if word is None else next(of_words) for word in made.words[new]]
            labels[new.stop - 1] = self.labels[old.stop - 1]
        return Trees(made.parents, made.words, tuple(labels))

    def brackets(self, n: int, labels: Sequence[Any] | None = None) -> str:
        """A tree in brackets.

        Args:
            n: the number of the tree.
            labels: other labels for its nodes, one per node; None: its own, if it has some.
        """
        first, last = (int(place) for place in self.parents.starts[n : n + 2])
        words, parents = self.words[first:last], self.parents[n]
        shown = self.labels[first:last] if labels is None else labels
        labelled = any(label is not None for label in shown)
        texts: list[list[str]] = [[] for _ in words]
        for node, (word, label, parent) in enumerate(zip(words, shown, parents, strict=True)):
            inside = [*([] if word is None else [word]), *texts[node]]
            text = f"({' '.join(['_' if label is None else str(label), *inside])})" if labelled else " ".join(inside)
            text = f"({text})" if not labelled and len(inside) > 1 else text
            texts[node] = []
            if parent == ROOT:
                return text
            texts[parent].append(text)
        raise AssertionError("the last node is the root")


def _in_post_order(place: str, parents: list[int], words: Sequence[Any], labels: Sequence[Any]) -> list[Node]:
    """The nodes of one tree, each after its children."""
    count = len(parents)
    for node, parent in enumerate(parents):
        checks.integer(f"{place}[{node}]", parent, minimum=ROOT, maximum=count - 1)
    roots = [node for node, parent in enumerate(parents) if parent == ROOT]
    if len(roots) != 1:
        checks.fail(place, "have one root, whose parent is −1", f"{len(roots)} roots")
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if parent != ROOT:
            children[parent].append(node)
    order, stack = [], roots
    while stack:  # parents first, the last child first; then reversed
        order.append(node := stack.pop())
        stack += children[node]
    if len(order) != count:
        missing = min(set(range(count)) - set(order))
        checks.fail(place, "be a tree, in which no node is above itself", f"a cycle above node {missing}")
    order.reverse()
    new = {node: n for n, node in enumerate(order)}
    return [Node(new.get(parents[node], ROOT), words[node], labels[node]) for node in order]


def _left(count: int) -> list[int]:
    """The parents in ((a b) c), in post-order: a, b, ab, c, abc."""
    parents = [0] * (2 * count - 1)
    for merge in range(2, 2 * count - 1, 2):
        parents[merge - 1] = merge
        parents[merge - 2] = merge
    parents[-1] = ROOT
    return parents


def _right(count: int) -> list[int]:
    """The parents in (a (b c)), in post-order: a, b, c, bc, abc."""
    last = 2 * count - 2  # the root
    words = [last - n for n in range(count - 1)] + [count]
    return [*words, *range(count + 1, last + 1), ROOT] if count > 1 else [ROOT]


def _balanced(count: int) -> list[int]:
    """The parents in ((a b) (c d)), in post-order. Both sides have the same number of words, or the left one more."""
    if count == 1:
        return [ROOT]
    left, right = _balanced(count - count // 2), _balanced(count // 2)
    root, shift = len(left) + len(right), len(left)
    return [
        *(root if parent == ROOT else parent for parent in left),
        *(root if parent == ROOT else parent + shift for parent in right),
        ROOT,
    ]


_BUILT: dict[str, Callable[[int], list[int]]] = {"balanced": _balanced, "left": _left, "right": _right}


def _over(words: Sequence[str], parents: list[int]) -> list[Node]:
    """A tree whose leaves are words."""
    inner, rest = set(parents), iter(words)
    return [Node(parent, None if node in inner else next(rest)) for node, parent in enumerate(parents)]
