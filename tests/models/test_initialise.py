"""Glorot's bound and Saxe's orthogonality, measured on the weights."""

import math

import pytest
import torch

from autapse import checks
from autapse.models import Classifier, QuestionAnswering
from autapse.models.initialise import initialise


@pytest.mark.parametrize(("cell", "gates"), [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_glorot_input_weights_orthogonal_recurrent_weights_and_no_bias(cell, gates):
    model = Classifier(
        cell, 30, 2, hidden_size=20, num_layers=2, bidirectional=True, initialisation="glorot-orthogonal"
    )
    seen = 0
    for name, value in model.layer.state_dict().items():
        if "weight_ih" in name:
            bound = math.sqrt(6 / (value.shape[0] + value.shape[1]))
            assert value.shape[0] == gates * 20
            assert 0.97 * bound < value.abs().max() <= bound
            assert abs(float(value.var()) / (bound**2 / 3) - 1) < 0.2  # uniform, not merely bounded
        elif "weight_hh" in name:
            torch.testing.assert_close(value.T @ value, torch.eye(20), atol=1e-5, rtol=0)
        else:
            assert "bias" in name
            assert not value.any()
        seen += 1
    assert seen == 4 * 4
    assert model.head.bias.any()  # the head keeps torch's own


def test_default_leaves_all_weights():
    torch.manual_seed(0)
    layer = Classifier("gru", 3, 2, hidden_size=4).layer
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    initialise(layer, "default")
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())


def test_all_three_layers_of_a_question_are_initialised():
    settings = {"hidden_size": 6, "vocabularies": [9], "embedding_size": [4]}
    model = QuestionAnswering("lstm", 1, 3, initialisation="glorot-orthogonal", **settings)
    for layer in (model.story, model.question, model.layer):
        weight = layer.state_dict()["weight_hh_l0"]
        torch.testing.assert_close(weight.T @ weight, torch.eye(6), atol=1e-5, rtol=0)
        assert not layer.state_dict()["bias_ih_l0"].any()


def test_other_layers_and_other_words_are_refused():
    with pytest.raises(checks.InputError, match=r"initialisation must be default for a layer with the parameter \w+"):
        Classifier("ernn", 3, 2, hidden_size=4, initialisation="glorot-orthogonal")
    with pytest.raises(
        checks.InputError, match="initialisation must be one of default, glorot-orthogonal; got 'glorot'"
    ):
        Classifier("gru", 3, 2, hidden_size=4, initialisation="glorot")
