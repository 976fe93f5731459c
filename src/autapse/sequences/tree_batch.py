"""TreeBatch: the nodes of all trees of a batch by depth, so that a whole level is computed at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks

ROOT = -1  # the parent of a root


@dataclass(frozen=True, slots=True)
class Level:
    """The inner nodes of one depth, and their children, which are all nodes of the next depth."""

    nodes: Tensor  # [n] the inner nodes, by their place in the caller's order
    parent: Tensor  # [m] for each child, the number of its parent among the n inner nodes, ascending
    position: Tensor  # [m] which child of its parent it is, from 0
    each: int  # children of every one of the n nodes, if they all have the same number; else 0
    source: Tensor  # [m] the row of each child among the inner nodes one level deeper, followed by that level's leaves
    leaves: slice  # that level's leaves, among all leaves


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """Trees as levels. A level's states are a function of the states one level deeper, and of the leaves there.

    >>> batch = make_trees([2, 2, 4, 4, -1])  # ((0 1) 3)
    >>> [level.nodes.tolist() for level in batch.levels], batch.leaves.tolist(), batch.roots.tolist()
    ([[2], [4]], [3, 0, 1], [4])
    """

    parents: np.ndarray  # [N]
    levels: tuple[Level, ...]  # the deepest first
    leaves: Tensor  # [n] all nodes without children, by depth
    places: Tensor  # [N] the row of each node among: all leaves, then the inner nodes level by level
    roots: Tensor  # [B]
    arity: int  # the largest number of children of a node

    def __len__(self) -> int:
        return len(self.parents)


def make_trees(parents: Sequence[int] | np.ndarray | Tensor, device: torch.device | str | None = None) -> TreeBatch:
    """The levels of some trees.

    Args:
        parents: [N], for each node the place of its parent; -1 for the root of a tree. Children are in the order of
            their places.
        device: where the index tensors are to be.

    Returns:
        The batch.
    """
    nodes = checked_parents(parents)
    depth = depths(nodes)
    order, starts = _by_depth(nodes, depth)
    children = np.bincount(nodes[nodes >= 0], minlength=len(nodes))
    inner = children[order] > 0
    leaf_ends = np.concatenate([[0], np.cumsum(~inner)])

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(device)

    levels = []
    for first, middle, last in zip(starts[-3::-1], starts[-2:0:-1], starts[:1:-1], strict=True):
        here, below = order[first:middle], order[middle:last]
        parent_nodes = here[children[here] > 0]
        counts = children[parent_nodes]
        parent = np.repeat(np.arange(len(parent_nodes)), counts)
        position = np.arange(len(below)) - np.repeat(np.cumsum(counts) - counts, counts)
        is_inner = inner[middle:last]
        source = np.where(is_inner, np.cumsum(is_inner) - 1, is_inner.sum() + np.cumsum(~is_inner) - 1)
        each = int(counts[0]) if (counts == counts[0]).all() else 0
        leaves = slice(int(leaf_ends[middle]), int(leaf_ends[last]))
        levels.append(Level(tensor(parent_nodes), tensor(parent), tensor(position), each, tensor(source), leaves))
    leaves = order[~inner]
    rows = np.concatenate([leaves, *(level.nodes.cpu().numpy() for level in levels)])
    places = np.empty(len(nodes), dtype=np.int64)
    places[rows] = np.arange(len(nodes))
    roots = np.flatnonzero(nodes == ROOT)
    return TreeBatch(nodes, tuple(levels), tensor(leaves), tensor(places), tensor(roots), int(children.max()))


def checked_parents(parents: Any) -> np.ndarray:  # [N] int64
    """Parents that a caller gave, if they are integers from −1 to N − 1."""
    try:
        given = parents.detach().cpu().numpy() if isinstance(parents, Tensor) else np.asarray(parents)
    except (TypeError, ValueError):
        checks.fail("parents", "be a list of integers, one per node", type(parents).__name__, kind=checks.KindError)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        rule = "be a list of integers, one per node"
        checks.fail("parents", rule, checks.brief(given), kind=checks.ShapeError)
    bad = np.flatnonzero((given < ROOT) | (given >= len(given)))
    if len(bad):
        rule = f"be places of nodes, from 0 to {len(given) - 1}, or −1 for a root"
        checks.fail(f"parents[{bad[0]}]", rule, int(given[bad[0]]))
    return given.astype(np.int64)


def depths(parents: np.ndarray) -> np.ndarray:  # [N]
    """The distance of each node from its root. Nodes that are above themselves are an error.

    >>> depths(np.array([2, 2, -1])).tolist()
    [1, 1, 0]
    """
    distance, above = (parents >= 0).astype(np.int64), parents.copy()
    passes = len(parents).bit_length()  # each one doubles how far up `above` is
    while (climbing := above >= 0).any():
        if passes < 0:
            node = int(np.flatnonzero(climbing)[0])
            checks.fail("parents", "make trees, in which no node is above itself", f"a cycle above node {node}")
        distance[climbing] += distance[above[climbing]]
        above[climbing] = above[above[climbing]]
        passes -= 1
    return distance


def _by_depth(parents: np.ndarray, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes by depth, children of the same parent together, and where each depth starts and ends."""
    order = np.argsort(depth, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(depth))])
    rank = np.empty(len(parents), dtype=np.int64)
    for first, last in itertools.pairwise(starts.tolist()):
        here = order[first:last]
        if first:  # parents are sorted already
            here = order[first:last] = here[np.argsort(rank[parents[here]], kind="stable")]
        rank[here] = np.arange(last - first)
    return order, starts
