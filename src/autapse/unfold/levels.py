"""How a cell becomes a tree: level by level, from the deepest nodes to the roots."""

from __future__ import annotations

import torch
from torch import Tensor

from autapse.cells.tree import Children, TreeCell
from autapse.forms import State
from autapse.sequences.tree_batch import ROOT, TreeBatch


def scan_levels(
    cell: TreeCell,
    drive: Tensor,  # [N, G]
    batch: TreeBatch,
) -> State:  # [N, S] each
    """The states of all nodes. One call of `compose` computes a whole level of all trees.

    All nodes of a depth are the children of the inner nodes one level above. So a level reads only the level below it,
    and leaves, which are computed all at once.
    """
    leaves = cell.compose(drive.index_select(0, batch.leaves), None)
    made: list[State] = []
    for level in batch.levels:
        below = [_joined(made, n, leaf[level.leaves]).index_select(0, level.source) for n, leaf in enumerate(leaves)]
        children = Children(tuple(below), level.parent, level.position, len(level.nodes), level.each)
        made.append(cell.compose(drive.index_select(0, level.nodes), children))
    columns = zip(leaves, *made, strict=True)
    return tuple(torch.cat(column).index_select(0, batch.places) for column in columns)


def _joined(made: list[State], n: int, leaves: Tensor) -> Tensor:
    """A state of the inner nodes of the last level, and of the leaves beside them. The first level has leaves only."""
    return torch.cat([made[-1][n], leaves]) if made else leaves


def scan_trees(
    cell: TreeCell,
    drive: Tensor,  # [N, G]
    batch: TreeBatch,
) -> State:  # [N, S] each
    """The same, node by node: the reference."""
    children: list[list[int]] = [[] for _ in batch.parents]
    for n, parent in enumerate(batch.parents.tolist()):
        if parent != ROOT:
            children[parent].append(n)
    states: dict[int, State] = {}
    for n in _children_first(children, batch.roots.tolist()):
        states[n] = cell.node(drive[n], [states[k] for k in children[n]])
    return tuple(torch.stack([states[n][k] for n in range(len(batch))]) for k in range(len(cell.state_sizes)))


def _children_first(children: list[list[int]], roots: list[int]) -> list[int]:
    """All nodes, each one after its children. Without recursion, since trees may be deep."""
    order, stack = [], list(roots)
    while stack:
        n = stack.pop()
        order.append(n)
        stack += children[n]
    return order[::-1]
