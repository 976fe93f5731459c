"""Tree: a recursive network over trees."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.cells.spec import parse_options, words_of
from autapse.cells.tree import TreeCell
from autapse.cells.tree_affine import TreeAffine, TreeTensor
from autapse.cells.tree_lstm import NaryTreeLSTM, TreeLSTM
from autapse.sequences.tree_batch import TreeBatch, make_trees
from autapse.unfold.levels import scan_levels

TREE_CELLS: dict[str, type[TreeCell]] = {
    "tree-lstm": TreeLSTM,
    "n-ary-lstm": NaryTreeLSTM,
    "affine": TreeAffine,
    "tensor": TreeTensor,
}


class Tree(nn.Module):
    """h_v = cell(x_v, h of the children of v), at every node v of a tree.

    A recursive network (the textbook's section 10.6). The nodes of all trees are computed level by level, so a batch
    costs about as many matrix products as its deepest tree has levels.

    Args:
        cell: `tree-lstm` (any number of children), `n-ary-lstm`, `affine`, `tensor`, with options as in
            `tree-lstm:forget_bias=0`; or a subclass of `autapse.cells.TreeCell`.
        input_size: features of a node's input. A node without an input has zeros.
        hidden_size: units, or a list with the units of each layer.
        num_layers: number of stacked layers: the states of all nodes are the inputs of the next layer.
        dropout: probability of dropping a value between layers, in training mode.
        device: where the parameters are.
        dtype: type of the parameters.
        options: options of the cell: `arity` for the largest number of children, `bias`, …

    Called with:
        x: the inputs of the nodes of all trees, [N, D].
        parents: [N] integers, the place of each node's parent among the N nodes; -1 for the root of a tree. Children
            are in the order of their places. Or a `TreeBatch` of `autapse.sequences.tree_batch.make_trees`.

    Returns:
        output: [N, H], the states of the last layer at all nodes.
        roots: [B, H], those at the roots, in the order of their places.

    >>> layer = autapse.Tree("tree-lstm", 3, 16)
    >>> output, roots = layer(torch.randn(8, 3), parents=[2, 2, 4, 4, -1, 7, 7, -1])  # ((0 1) 3) and (5 6)
    >>> output.shape, roots.shape
    (torch.Size([8, 16]), torch.Size([2, 16]))
    """

    def __init__(
        self,
        cell: str | type[TreeCell],
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.input_size = checks.integer("input_size", input_size, minimum=1)
        self.dropout = checks.number("dropout", dropout, low=0.0, high=1.0)
        kind, named = tree_cell(cell)
        sizes = [hidden_size] if isinstance(hidden_size, int) else list(hidden_size)
        if num_layers is not None and len(sizes) == 1:
            sizes = sizes * checks.integer("num_layers", num_layers, minimum=1)
        if not sizes or num_layers not in (None, len(sizes)):
            checks.fail("hidden_size", f"be one size, or one for each of the {num_layers or 1} layers", hidden_size)
        known = {**named, **options}
        for name in known:
            if name not in cell_arguments(kind):
                rule = f"be one of: {', '.join(cell_arguments(kind))}"
                checks.fail(f"option of {kind.__name__}", rule, name, checks.closest(name, cell_arguments(kind)))
        widths = [self.input_size, *sizes[:-1]]
        self.cells = nn.ModuleList(
            kind(width, size, **known, device=device, dtype=dtype) for width, size in zip(widths, sizes, strict=True)
        )
        self.output_size = sizes[-1]

    def extra_repr(self) -> str:
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return f"{self.input_size}, {self.output_size}{dropout}"

    def reset_parameters(self) -> None:
        """Draw the initial parameters of every cell again."""
        for cell in self.cells:
            cell.reset_parameters()  # type: ignore[operator]

    def forward(
        self,
        x: Tensor,  # [N, D]
        parents: Sequence[int] | np.ndarray | Tensor | TreeBatch,
    ) -> tuple[Tensor, Tensor]:
        """Run the layers. The docstring of the class explains the arguments and the result."""
        if not isinstance(x, Tensor) or x.dim() != 2 or x.shape[1] != self.input_size:
            rule = f"be a tensor of shape (N, {self.input_size}), one row per node"
            got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            checks.fail("input", rule, got, kind=checks.ShapeError)
        batch = parents if isinstance(parents, TreeBatch) else make_trees(parents, x.device)
        if len(batch) != len(x):
            checks.fail("parents", f"have one entry for each of the {len(x)} nodes", len(batch), kind=checks.ShapeError)
        for n, cell in enumerate(self.cells):
            assert isinstance(cell, TreeCell)
            if cell.arity is not None and batch.arity > cell.arity:
                remedy = f"Pass arity={batch.arity}, or use tree-lstm."
                checks.fail("parents", f"give a node at most {cell.arity} children", batch.arity, remedy)
            x = F.dropout(x, self.dropout, self.training) if n else x
            x = scan_levels(cell, cell.drive(x), batch)[0]
        return x, x.index_select(0, batch.roots)


def tree_cell(cell: Any) -> tuple[type[TreeCell], dict[str, Any]]:
    """The class and the options of a tree cell: a name with options, or a class."""
    if isinstance(cell, type) and issubclass(cell, TreeCell):
        return cell, {}
    if not isinstance(cell, str):
        rule = f"be one of {', '.join(TREE_CELLS)}, or a subclass of autapse.cells.TreeCell"
        checks.fail("cell", rule, cell, kind=checks.KindError)
    name, *words = words_of(cell)
    kind = TREE_CELLS[checks.one_of("cell", name, TREE_CELLS)]
    return kind, parse_options("cell", cell, name, words, cell_arguments(kind))


def cell_arguments(kind: type[TreeCell]) -> dict[str, inspect.Parameter]:
    """The options of a tree cell."""
    skipped = ("self", "input_size", "hidden_size", "device", "dtype")
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {p.name: p for p in parameters if p.kind != p.VAR_KEYWORD and p.name not in skipped}
