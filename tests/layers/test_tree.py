"""Recursive networks, level by level, against a recursion written from the equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.layers.tree import TREE_CELLS
from autapse.sequences.tree_batch import make_trees
from autapse.unfold.levels import scan_levels, scan_trees
from tolerance import close

D, H = 3, 4
# Three trees: ((0 1) 3), with an inner node of one child, and a single node; not in post-order.
PARENTS = [2, 2, 4, 4, -1, 6, 7, -1, -1, -1, 9, 9, 9, 12]
EACH = pytest.mark.parametrize("name", TREE_CELLS)


def make(name: str, **options: Any) -> Any:
    arity = {} if name == "tree-lstm" else {"arity": 3}
    return autapse.Tree(name, D, H, dtype=torch.float64, **arity, **options)


def nodes() -> Tensor:
    return torch.randn(len(PARENTS), D, dtype=torch.float64)


def value(name: str, cell: Any, x: Tensor, parents: list[int], node: int) -> tuple[Tensor, ...]:
    """The state of a node, by recursion, from the equations in the papers."""
    below = [value(name, cell, x, parents, n) for n in range(len(parents)) if parents[n] == node]
    h = [state[0] for state in below]
    both = torch.cat([*h, torch.zeros(3 * H - len(h) * H, dtype=x.dtype)])
    W, b = cell.weight_x, cell.bias_h
    if name == "affine":
        return (torch.tanh(W @ x[node] + b + cell.weight_h @ both),)
    if name == "tensor":
        form = torch.einsum("j,ijk,k->i", both, cell.weight_hh, both)
        return (torch.tanh(W @ x[node] + b + cell.weight_h @ both + form),)
    (W_i, W_o, W_g, W_f), (b_i, b_o, b_g, b_f) = W.split(H), b.split(H)
    if name == "tree-lstm":
        total = torch.stack([torch.zeros(H, dtype=x.dtype), *h]).sum(0)
        R_i, R_o, R_g = cell.weight_h.split(H)
        i, o, g = (R @ total + U @ x[node] + c for R, U, c in ((R_i, W_i, b_i), (R_o, W_o, b_o), (R_g, W_g, b_g)))
        forget = [torch.sigmoid(W_f @ x[node] + cell.weight_f @ one + b_f) for one in h]
    else:
        R_i, R_o, R_g, *R_f = cell.weight_h.split(H)
        i, o, g = (R @ both + U @ x[node] + c for R, U, c in ((R_i, W_i, b_i), (R_o, W_o, b_o), (R_g, W_g, b_g)))
        forget = [torch.sigmoid(W_f @ x[node] + R @ both + b_f) for R, _ in zip(R_f, h, strict=False)]
    c = torch.sigmoid(i) * torch.tanh(g)
    for f, state in zip(forget, below, strict=True):
        c = c + f * state[1]
    return torch.sigmoid(o) * torch.tanh(c), c


@EACH
def test_levels_give_what_the_equations_say(name: str) -> None:
    layer, x = make(name), nodes()
    output, roots = layer(x, PARENTS)
    expected = [value(name, layer.cells[0], x, PARENTS, n)[0] for n in range(len(PARENTS))]
    close(output, torch.stack(expected))
    assert torch.equal(roots, output[[n for n, parent in enumerate(PARENTS) if parent == -1]])


@EACH
def test_the_reference_gives_the_same_with_the_same_gradients(name: str) -> None:
    cell, batch = make(name).cells[0], make_trees(PARENTS)
    x = nodes().requires_grad_()
    results = []
    for scan in (scan_levels, scan_trees):
        states = scan(cell, cell.drive(x), batch)
        loss = sum((state * torch.arange(1.0, 1 + state.numel()).view_as(state)).sum() for state in states)
        results.append((states, torch.autograd.grad(loss, [x, *cell.parameters()])))
    close(*results)


@EACH
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    layer = make(name)
    x = nodes().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, PARENTS)[0], (x, *layer.parameters()))


@EACH
def test_a_level_of_all_trees_is_one_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 50 balanced trees of 16 leaves: the leaves, and four levels above them."""
    layer = autapse.Tree(name, D, H)
    kind, calls = type(layer.cells[0]), []
    compose = kind.compose
    monkeypatch.setattr(kind, "compose", lambda self, u, children: calls.append(len(u)) or compose(self, u, children))
    trees = autapse.Trees.over([["w"] * 16] * 50)
    layer(torch.randn(len(trees.words), D), trees.flat_parents)
    assert calls == [800, 400, 200, 100, 50]


@EACH
def test_other_trees_in_the_batch_do_not_matter(name: str) -> None:
    layer, x = make(name), nodes()
    whole = layer(x, PARENTS)[0]
    close(layer(x[:5], PARENTS[:5])[0], whole[:5])
    order = torch.randperm(len(PARENTS))
    place = torch.argsort(order)
    # Children keep their order only if their places do; the sum over children does not need it.
    if name == "tree-lstm":
        moved = [-1 if PARENTS[n] == -1 else int(place[PARENTS[n]]) for n in order.tolist()]
        close(layer(x[order], moved)[0], whole[order])


def test_the_order_of_children_matters_for_matrices_of_each() -> None:
    x = torch.randn(3, D)
    for name, matters in (("tree-lstm", False), ("n-ary-lstm", True), ("affine", True), ("tensor", True)):
        layer = autapse.Tree(name, D, H)
        swapped = layer(x[[1, 0, 2]], [2, 2, -1])[1]
        assert torch.allclose(layer(x, [2, 2, -1])[1], swapped, atol=1e-7) != matters


def test_a_chain_is_a_recurrent_network() -> None:
    """On a chain of nodes with one child each, the affine map is torch.nn.RNN."""
    layer = autapse.Tree("affine", D, H, arity=1, dtype=torch.float64)
    cell: Any = layer.cells[0]
    rnn = torch.nn.RNN(D, H, dtype=torch.float64)
    with torch.no_grad():
        rnn.weight_ih_l0.copy_(cell.weight_x)
        rnn.weight_hh_l0.copy_(cell.weight_h)
        rnn.bias_ih_l0.copy_(cell.bias_h)
        rnn.bias_hh_l0.zero_()
    x = torch.randn(9, D, dtype=torch.float64)
    close(layer(x, [*range(1, 9), -1])[0], rnn(x)[0])


def test_a_chain_of_the_tree_lstm_is_an_lstm() -> None:
    layer = autapse.Tree("tree-lstm", D, H, dtype=torch.float64)
    cell: Any = layer.cells[0]
    lstm = torch.nn.LSTM(D, H, dtype=torch.float64)  # its gates are i, f, g, o; ours are i, o, g, f
    order = [0, 3, 2, 1]
    recurrent = [*cell.weight_h.split(H), cell.weight_f]
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(torch.cat([cell.weight_x.split(H)[n] for n in order]))
        lstm.bias_ih_l0.copy_(torch.cat([cell.bias_h.split(H)[n] for n in order]))
        lstm.weight_hh_l0.copy_(torch.cat([recurrent[n] for n in order]))
        lstm.bias_hh_l0.zero_()
    x = torch.randn(9, D, dtype=torch.float64)
    close(layer(x, [*range(1, 9), -1])[0], lstm(x)[0])


def test_layers_are_stacked_with_dropout() -> None:
    layer = autapse.Tree("tree-lstm", D, [5, H], dropout=0.5)
    x = torch.randn(3, D)
    first, second = layer.cells
    batch = make_trees([2, 2, -1])
    assert not torch.equal(layer(x, batch)[0], layer(x, batch)[0])
    layer.eval()
    inside = scan_levels(first, first.drive(x), batch)[0]
    assert torch.equal(layer(x, batch)[0], scan_levels(second, second.drive(inside), batch)[0])


def test_a_very_deep_tree_does_not_overflow() -> None:
    layer, count = autapse.Tree("affine", 1, 1, arity=1), 3_000
    output, _ = layer(torch.zeros(count, 1), np.append(np.arange(1, count), -1))
    output.sum().backward()
    assert output.shape == (count, 1)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([1, 0, -1], r"in which no node is above itself; got 'a cycle above node 0'"),
        ([0], "a cycle above node 0"),
        ([5, -1, -1], r"parents\[0\] must be places of nodes, from 0 to 2, or −1 for a root; got 5"),
        ([-2, -1, -1], r"parents\[0\] must be places of nodes"),
        ([0.5, -1.0, -1.0], "parents must be a list of integers"),
        ([], "parents must be a list of integers"),
        ([2, 2], "parents"),
        ([3, 3, 3, -1], "parents must have one entry for each of the 3 nodes; got 4"),
    ],
)
def test_what_is_not_a_tree_is_named(parents: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        autapse.Tree("affine", D, H)(torch.zeros(3, D), parents)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="cell must be one of tree-lstm, n-ary-lstm, affine, tensor; got 'gru'"):
        autapse.Tree("gru", D, H)
    with pytest.raises(InputError, match="option of TreeLSTM must be one of: bias, forget_bias; got 'arity'"):
        autapse.Tree("tree-lstm", D, H, arity=2)
    with pytest.raises(InputError, match=r"parents must give a node at most 2 children; got 3\. Pass arity=3"):
        autapse.Tree("affine", D, H)(torch.zeros(4, D), [3, 3, 3, -1])
    with pytest.raises(InputError, match="arity must be an integer of at least 1 and at most 16; got 17"):
        autapse.Tree("tensor", D, H, arity=17)
    with pytest.raises(InputError, match=r"input must be a tensor of shape \(N, 3\)"):
        autapse.Tree("affine", D, H)(torch.zeros(4, 2), [-1] * 4)
    with pytest.raises(InputError, match="hidden_size must be one size, or one for each of the 3 layers"):
        autapse.Tree("affine", D, [1, 2], num_layers=3)
