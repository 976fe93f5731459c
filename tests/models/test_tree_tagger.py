"""A model of trees: what it reads, and what people pass to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import autapse
from autapse.checks import InputError
from autapse.models import TreeTagger
from tolerance import close

WORDS = ("<node>", "<unk>", "good", "bad", "not")


def make(**options: Any) -> TreeTagger:
    model = TreeTagger("n-ary-lstm", len(WORDS), 3, **{"hidden_size": 5, "embedding_size": 4, **options})
    model.words, model.classes, model.lower = WORDS, ("minus", "zero", "plus"), True
    return model


def test_a_batch_gives_what_each_tree_gives_alone() -> None:
    model = make()
    one = torch.tensor([[4, 4], [2, 2], [3, 1], [0, 1], [0, 0]])  # (not (good bad))
    two = torch.tensor([[2, 0]])
    both = torch.nn.utils.rnn.pad_sequence([one, two], batch_first=True)
    output = model(both, torch.tensor([5, 1]))
    close(output[0], model(one[None])[0])
    close(output[1, :1], model(two[None])[0])
    assert not output[1, 1:].any()


def test_it_is_word_vectors_a_tree_and_a_head() -> None:
    model = make().eval()
    rows = torch.tensor([[4, 2], [2, 1], [0, 0]])
    vectors = torch.cat([model.inputs.tables[0].weight[[4, 2]], torch.zeros(1, 4)])  # type: ignore[index]
    states, _ = model.layer(vectors, [2, 2, -1])
    close(model(rows[None])[0], model.head(states))


def test_predictions_take_all_kinds_of_trees() -> None:
    model = make(output_dropout=0.5)
    trees = autapse.Trees.of_brackets(["((Not good) surprising)", "(good bad)"], labels=False)
    answers = model.predict(trees)
    assert [len(one) for one in answers] == [5, 3]
    assert set(np.concatenate(answers)) <= set(model.classes)
    for form in (["((Not good) surprising)", "(good bad)"], [(("Not", "good"), "surprising"), ("good", "bad")]):
        assert all((a == b).all() for a, b in zip(model.predict(form), answers, strict=False))
    chances = model.predict_proba(trees)
    assert chances[0].shape == (5, 3)
    np.testing.assert_allclose(chances[0].sum(1), 1)
    assert model.training


def test_a_learned_tree_answers_at_the_root_only() -> None:
    model = make(tree="learned").eval()
    x = torch.tensor([[[4, 2], [2, 1], [0, 2], [3, 1], [0, 0]]])
    output = model(x)
    assert not output[0, :4].any()
    vectors = model.inputs(x[:, [0, 1, 3], :1])
    close(output[0, 4], model.head(model.layer(vectors)[0])[0])
    assert [len(one) for one in model.predict(["((not good) bad)"])] == [1]
    learned = model.learned_trees([("not", "good", "bad", "good")])
    assert learned.sentence(0) == ("not", "good", "bad", "good")
    assert learned.lengths.tolist() == [7]
    with pytest.raises(InputError, match="This model reads given trees"):
        make().learned_trees([("a", "b")])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 3, 2), "input must be a tensor of integers of shape"),
        (torch.tensor([[[2, 0], [2, 0]]]), "only the last node is a root; got 'distance 0 at node 0'"),
        (torch.tensor([[[2, 2], [2, 0]]]), "got 'distance 2 at node 0'"),
        (torch.tensor([[[2, 1], [2, -1]]]), "got 'distance -1 at node 1'"),
    ],
)
def test_bad_input_is_named(x: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()(x)


@pytest.mark.parametrize("trees", ["(good bad)", [], 3, [3]])
def test_bad_trees_are_named(trees: Any) -> None:
    with pytest.raises(InputError, match="trees"):
        make().predict(trees)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="tree must be one of given, learned"):
        make(tree="found")
    with pytest.raises(InputError, match="num_layers must be 1 with a learned structure"):
        make(tree="learned", num_layers=2)
    model = make()
    model.words = ()
    with pytest.raises(InputError, match="This model has no names of words"):
        model.predict(["(good bad)"])
