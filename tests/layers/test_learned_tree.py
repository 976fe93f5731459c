"""A tree that is chosen greedily, against a loop over Python lists; and the gradient of the choice."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.layers.learned_tree import merged
from tolerance import close

D, H = 3, 4


def greedy(layer: Any, words: Tensor) -> tuple[Tensor, list[int]]:
    """One sequence: merge the best neighbours in a list until one is left."""
    cell = layer.cell
    nothing = cell.drive(torch.zeros(1, D, dtype=words.dtype))[0]
    states = [cell.node(u, []) for u in cell.drive(words)]
    merges = []
    while len(states) > 1:
        made = [cell.node(nothing, [a, b]) for a, b in itertools.pairwise(states)]
        best = max(range(len(made)), key=lambda n: float((made[n][0] @ layer.query).detach()))
        merges.append(best)
        states[best : best + 2] = [made[best]]
    return states[0][0], merges


@pytest.mark.parametrize("cell", ["n-ary-lstm", "tree-lstm", "affine", "tensor"])
def test_the_best_neighbours_are_merged(cell: str) -> None:
    layer = autapse.LearnedTree(cell, D, H, dtype=torch.float64).eval()
    lengths = [6, 1, 4, 2]
    x = torch.randn(4, 6, D, dtype=torch.float64)
    roots, merges = layer(x, lengths)
    for row, end, root, chosen in zip(x, lengths, roots, merges.tolist(), strict=True):
        wanted, order = greedy(layer, row[:end])
        close(root, wanted)
        assert chosen == order + [-1] * (6 - end)


def test_the_tree_of_the_merges_gives_the_same_root() -> None:
    layer = autapse.LearnedTree("n-ary-lstm", D, H, dtype=torch.float64).eval()
    x = torch.randn(1, 5, D, dtype=torch.float64)
    roots, merges = layer(x)
    tree = autapse.Tree("n-ary-lstm", D, H, dtype=torch.float64)
    tree.cells[0].load_state_dict(layer.cell.state_dict())
    trees = autapse.Trees.of_nested([merged(merges[0], "01234")])
    places = [5 if word is None else int(word) for word in trees.words]
    inputs = torch.cat([x[0], torch.zeros(1, D, dtype=torch.float64)])[places]
    close(tree(inputs, trees.flat_parents)[1], roots)


def test_the_gradient_of_the_choice_is_that_of_the_softmax() -> None:
    """With three words there is one choice; its weights have the derivative of a softmax."""
    layer: Any = autapse.LearnedTree("affine", D, H, dtype=torch.float64, temperature=0.7).eval()
    scores = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    pairs = torch.ones(2, 4, dtype=torch.bool)
    weights, place = layer._chosen(scores, pairs)
    assert torch.equal(weights.detach(), torch.nn.functional.one_hot(scores.argmax(1), 4).double())
    assert torch.equal(place, scores.argmax(1))
    direction = torch.randn(2, 4, dtype=torch.float64)
    (found,) = torch.autograd.grad((weights * direction).sum(), scores)
    (wanted,) = torch.autograd.grad((torch.softmax(scores / 0.7, 1) * direction).sum(), scores)
    close(found, wanted)


def test_training_draws_pairs_with_the_probability_of_the_softmax() -> None:
    layer: Any = autapse.LearnedTree("affine", D, H)
    scores = torch.tensor([0.0, 1.0, 2.0]).expand(20_000, 3)
    weights, _ = layer._chosen(scores, torch.ones(20_000, 3, dtype=torch.bool))
    wanted = torch.softmax(scores[0], 0)
    assert (weights.mean(0) - wanted).abs().max() < 5 * 0.5 / 20_000**0.5  # five standard errors at most


def test_the_score_is_learned() -> None:
    layer = autapse.LearnedTree("n-ary-lstm", D, H)
    layer(torch.randn(2, 4, D))[0].sum().backward()
    assert layer.query.grad is not None
    assert layer.query.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("x", "lengths", "message"),
    [
        (torch.zeros(2, 4), None, r"input must be a tensor of shape \(B, T, 3\)"),
        (torch.zeros(2, 4, D), [4, 0], "lengths must be at least 1; got 0"),
        (torch.zeros(2, 4, D), [4, 5], "lengths must be 2 integers from 0 to 4"),
    ],
)
def test_bad_input_is_named(x: Any, lengths: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        autapse.LearnedTree("affine", D, H)(x, lengths)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="temperature must be a finite number above 0"):
        autapse.LearnedTree("affine", D, H, temperature=0)
    with pytest.raises(InputError, match="cell must be for two children; got 3"):
        autapse.LearnedTree("affine:arity=3", D, H)
