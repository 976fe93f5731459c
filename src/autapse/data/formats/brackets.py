"""Trees in brackets, as in the Penn Treebank: `(S (NP It) (VP works))`, one tree per line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from autapse import checks
from autapse.data.reading import read_bytes, text_lines

ROOT = -1  # the parent of a root
UNKNOWN_LABEL = "_"
TOKEN = re.compile(r"[()]|[^\s()]+")
NO_LABEL = re.compile(r"\(\s*\(")
SHOWN = 40  # characters of a tree in a message


class Node(NamedTuple):
    """A node of a tree whose nodes are in post-order."""

    parent: int  # its place in the tree; −1 for the root
    word: str | None = None
    label: str | None = None


def read_brackets(lines: Sequence[tuple[str, str]], labels: bool | None = None) -> list[list[Node]]:
    """The trees of some lines.

    Args:
        lines: for each tree where it is, for messages, and its text.
        labels: whether each bracket starts with a label; None: unless some bracket starts with a bracket.

    Returns:
        The nodes of each tree, in post-order.

    >>> read_brackets([("line 1", "(4 (3 really) (3 good))")])[0][2]
    Node(parent=-1, word=None, label='4')
    """
    labelled = not any(NO_LABEL.search(text) for _, text in lines) if labels is None else labels
    return [_Reader(place, text, labelled).read() for place, text in lines]


def read_tree_lines(path: Path) -> list[tuple[str, str]]:
    """The lines of a file that are not empty, each with its place."""
    content = read_bytes(path).removeprefix("\ufeff".encode()).removesuffix(b"\n")
    lines = text_lines(content + b"\n", path)
    read = [(f"{path}, line {n}", line) for n, line in enumerate(lines, 1) if line.strip()]
    if not read:
        raise checks.InputError(f"{path} has no tree.")
    return read


class _Bracket:
    """A bracket that is open."""

    def __init__(self) -> None:
        self.label: str | None = None
        self.items: list[int] = []  # the places of the nodes in it
        self.bare = False  # whether its last item is a word without brackets


class _Reader:
    """Reads one tree, without recursion, since brackets may be nested deeply."""

    def __init__(self, place: str, text: str, labelled: bool) -> None:
        self.place, self.text, self.labelled = place, text, labelled
        self.parents: list[int] = []
        self.words: list[str | None] = []
        self.labels: list[str | None] = []

    def read(self) -> list[Node]:
        stack: list[_Bracket] = []
        finished = False
        for token in TOKEN.findall(self.text):
            if finished:
                self._fail("be one tree", f"{token!r} after its end", "Write one tree per line.")
            if token == "(":
                stack.append(_Bracket())
            elif token == ")" and stack:
                bracket = stack.pop()
                node = self._close(bracket, outermost=not stack)
                finished = not stack
                if stack:
                    stack[-1].items.append(node)
                    stack[-1].bare = False
            elif not stack:
                self._fail("be a tree in brackets, such as (3 (2 It) (4 works))", self._short())
            elif self.labelled and stack[-1].label is None and not stack[-1].items:
                stack[-1].label = token
            else:
                stack[-1].items.append(self._add(token, None))
                stack[-1].bare = True
        if not finished:
            self._fail("close every bracket", f"{len(stack)} that are open at the end of {self._short()}")
        return [Node(*node) for node in zip(self.parents, self.words, self.labels, strict=True)]

    def _close(self, bracket: _Bracket, outermost: bool) -> int:
        """The node of a bracket: a new one above its items, or its only item."""
        items, label = bracket.items, bracket.label
        if not items:
            self._fail(
                f"have a word or a tree {'after each label' if self.labelled else 'in each bracket'}", self._short()
            )
        if self.labelled and label is None and not (outermost and len(items) == 1):
            self._fail("have a label after each opening bracket", self._short(), "Write _ for an unknown one.")
        if len(items) == 1 and label is None:  # as around each sentence of the Penn Treebank
            return items[0]
        label = None if label == UNKNOWN_LABEL else label
        if len(items) == 1 and bracket.bare:
            self.labels[items[0]] = label
            return items[0]
        node = self._add(None, label)
        for item in items:
            self.parents[item] = node
        return node

    def _add(self, word: str | None, label: str | None) -> int:
        self.parents.append(ROOT)
        self.words.append(word)
        self.labels.append(label)
        return len(self.parents) - 1

    def _short(self) -> str:
        return self.text if len(self.text) <= SHOWN else f"{self.text[:SHOWN]}…"

    def _fail(self, rule: str, value: str, remedy: str = "") -> NoReturn:
        checks.fail(self.place, rule, value, remedy)


def nodes_of(tree: Any, place: str) -> list[Node]:
    """The nodes of a tree as nested tuples or lists of words, in post-order.

    >>> nodes_of((("the", "cat"), "sleeps"), "tree")[2]
    Node(parent=4, word=None, label=None)
    """
    parents: list[int] = []
    words: list[str | None] = []
    stack: list[tuple[Any, list[int]]] = [((tree,), [])]  # what is being read, and the nodes in it so far
    turns = [iter((tree,))]
    while turns:
        item = next(turns[-1], None)
        if item is None:
            (_, inside), _ = stack.pop(), turns.pop()
            if not turns:
                break
            if not inside:
                checks.fail(place, "have a word or a tree in each list", ())
            node = inside[0]
            if len(inside) > 1:
                node = len(parents)
                parents.append(ROOT)
                words.append(None)
                for child in inside:
                    parents[child] = node
            stack[-1][1].append(node)
        elif isinstance(item, str):
            parents.append(ROOT)
            words.append(item)
            stack[-1][1].append(len(parents) - 1)
        elif isinstance(item, tuple | list):
            if len(turns) > 1 and item is tree:
                checks.fail(place, "not contain itself", "a cycle")
            stack.append((item, []))
            turns.append(iter(item))
        else:
            checks.fail(place, "be nested tuples or lists of words", item, kind=checks.KindError)
    return [Node(parent, word) for parent, word in zip(parents, words, strict=True)]
