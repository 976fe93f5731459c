"""Glorot's bound and Saxe's orthogonality, measured on the weights."""

import math
import re

import numpy as np
import pytest
import torch

import autapse
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


def parameters_of(layer: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name.rpartition(".")[2]: value.detach() for name, value in layer.named_parameters()}


def test_rules_draw_the_parameters_that_they_name():
    torch.manual_seed(0)
    layer = Classifier("ernn", 50, 2, hidden_size=100).layer
    before = {name: value.clone() for name, value in parameters_of(layer).items()}
    initialise(layer, "weight=normal(0.1), weight_hh=identity(0.2), bias=uniform(3), rate=constant(-0.5)")
    after = parameters_of(layer)
    assert set(after) == {"weight_ih", "weight_hh", "weight_align", "bias_h", "rate"} == set(before)
    noise = after["weight_hh"] - torch.eye(100)
    for values, deviation in ((after["weight_ih"], 0.1), (after["weight_align"], 0.1), (noise, 0.2)):
        # The deviation of a sample of n normal numbers is off by about 1/√(2n) of itself.
        assert abs(float(values.std()) / deviation - 1) < 5 / math.sqrt(2 * values.numel())
        assert abs(float(values.mean())) < 5 * deviation / math.sqrt(values.numel())
    assert 2 < after["bias_h"].abs().max() <= 3
    assert float(after["rate"]) == -0.5


def test_parameters_without_a_rule_keep_their_start():
    torch.manual_seed(0)
    layer = Classifier("fastgrnn", 3, 2, hidden_size=4, num_layers=2, bidirectional=True).layer
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    initialise(layer, "bias=constant(1)")
    for name, value in layer.state_dict().items():
        assert torch.equal(value, torch.ones_like(value) if "bias" in name else before[name])


@pytest.mark.parametrize(
    ("cell", "text", "message"),
    [
        ("ernn", "glorot-orthogonal", r"be default, or rules, for a layer with the parameter \w+"),
        ("gru", "glorot", r"be one of default, glorot-orthogonal, reservoir, sutskever, or rules .*; got 'glorot'"),
        ("gru", "weight=glorot(2)", r"give glorot no value; got 'weight=glorot\(2\)'"),
        ("gru", "weight=normal", "give normal one value; got 'weight=normal'"),
        ("gru", "weight=normal(a)", "give normal one value; got 'a'"),
        ("gru", "weight=normal(-1)", "value of normal must be a finite number at least 0; got -1.0"),
        ("gru", "weight=gauss(1)", "kind of initialisation must be one of normal"),
        (
            "gru",
            "wait=normal(1)",
            r"name parameters of the layer \(weight_ih, weight_hh, bias_.*\); got 'wait'",
        ),
        ("gru", "bias=orthogonal", r"use orthogonal for matrices only; bias_ih_l0 has shape \(12,\)"),
        ("gru", "weight_hh=identity(0)", r"use identity for square matrices only; weight_hh_l0 has shape \(12, 4\)"),
    ],
)
def test_wrong_rules_are_named(cell, text, message):
    with pytest.raises(checks.InputError, match=message):
        Classifier(cell, 3, 2, hidden_size=4, initialisation=text)


@pytest.mark.parametrize(("cell", "gates"), [("rnn", 1), ("lstm", 4), ("rin", 1)])
def test_reservoir_theory_15_inputs_and_radius(cell, gates):
    layer = Classifier(cell, 3, 2, hidden_size=40, num_layers=2, initialisation="reservoir").layer
    matrices = [value for name, value in layer.named_parameters() if "weight_hh" in name]
    assert len(matrices) == 2
    for matrix in matrices:
        assert (matrix != 0).sum(1).tolist() == [15] * 40 * gates
        for block in matrix.detach().split(40):
            assert abs(np.linalg.eigvals(block.double().numpy())).max() == pytest.approx(1.2, rel=1e-4)


def test_kinds_follow_one_another():
    layer = Classifier("rnn", 3, 2, hidden_size=4).layer
    initialise(layer, "weight_hh=orthogonal radius(0.5), bias=zero")
    weight = layer.weight_hh_l0.detach()
    torch.testing.assert_close(weight.T @ weight, 0.25 * torch.eye(4), atol=1e-5, rtol=0)
    assert not layer.bias_hh_l0.any()
    few = Classifier("rnn", 3, 2, hidden_size=4).layer
    initialise(few, "weight_hh=sparse(15)")  # at most all
    assert (few.weight_hh_l0 != 0).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weight_hh=zero radius(1)", "leave eigenvalues that are not 0, if radius comes next"),
        ("bias=radius(1)", "use radius for square blocks of matrices only"),
        ("weight_ih=radius(1)", "use radius for square blocks of matrices only"),
        ("weight_hh=sparse(0)", "value of sparse must be an integer of at least 1; got 0"),
        ("weight_hh=sparse(1.5)", "value of sparse must be an integer of at least 1; got 1.5"),
        ("weight_hh=sparse", "give sparse one value"),
    ],
)
def test_bad_rules_of_reservoirs(text, message):
    with pytest.raises(checks.InputError, match=re.escape(message)):
        initialise(Classifier("rnn", 3, 2, hidden_size=4).layer, text)


def test_sutskevers_start():
    layer = autapse.RNN(2, 40)
    initialise(layer, "sutskever")
    assert (layer.weight_hh_l0 != 0).sum(1).tolist() == [15] * 40
    assert float(torch.linalg.eigvals(layer.weight_hh_l0.detach()).abs().max()) == pytest.approx(1.1, rel=1e-4)
    assert float(layer.weight_ih_l0.detach().std()) == pytest.approx(0.001, rel=0.5)
    assert not layer.bias_ih_l0.any()
    assert not layer.bias_hh_l0.any()


def test_a_model_without_values_takes_a_start_too():
    """A checkpoint is compared with such a model before it is loaded."""
    layer = autapse.RNN(3, 20, device="meta")
    initialise(layer, "sutskever")
    assert layer.weight_hh_l0.is_meta
