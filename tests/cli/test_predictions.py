"""Predictions at every step, as files; the commands are in test_predict_kinds."""

import csv
import io
import json

import numpy as np
import torch

from autapse.cli.predict import score
from autapse.cli.predictions import WRITERS, Predictions
from autapse.models import StepRegressor, Tagger
from autapse.tasks import Signature

SCORES = [np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]]), np.array([[1.0, 0.0]])]


def tagger():
    torch.manual_seed(0)
    model = Tagger("gru", 1, 2, 3)
    model.classes = ("a", "b")
    return model


def rows(predictions):
    return list(csv.reader(io.StringIO(WRITERS[".csv"](predictions).decode())))


def loaded(predictions):
    return np.load(io.BytesIO(WRITERS[".npy"](predictions)))


def test_a_class_at_every_step():
    said = Predictions.of(tagger(), SCORES, ("x", "y"))
    assert rows(said) == [
        ["sequence", "step", "prediction"],
        ["x", "0", "b"],
        ["x", "1", "a"],
        ["x", "2", "b"],
        ["y", "0", "a"],
    ]
    assert json.loads(WRITERS[".json"](said)) == {"x": ["b", "a", "b"], "y": ["a"]}
    assert loaded(said).tolist() == [[1, 0, 1], [0, -100, -100]]
    assert said.lines() == ['x\t["b", "a", "b"]', 'y\t["a"]']


def test_numbers_of_classes():
    said = Predictions.of(tagger(), SCORES, numbers=True)
    assert said.lines() == ["[1, 0, 1]", "[0]"]
    assert rows(said)[1] == ["0", "0", "1"]


def test_probabilities_at_every_step():
    said = Predictions.of(tagger(), SCORES, probabilities=True)
    expected = [1 / (1 + np.e), np.e / (1 + np.e)]
    assert rows(said)[0] == ["sequence", "step", "a", "b"]
    np.testing.assert_allclose([float(cell) for cell in rows(said)[1][2:]], expected, rtol=1e-5)
    array = loaded(said)
    np.testing.assert_allclose(array[0, 0], expected, rtol=1e-5)
    assert np.isnan(array[1, 1:]).all()
    assert said.lines()[0] == "sequence\tstep\ta\tb"
    assert json.loads(WRITERS[".json"](said))[1][0].keys() == {"a", "b"}


def test_values_at_every_step():
    said = Predictions.of(StepRegressor("gru", 1, 2, 3), SCORES)
    assert rows(said)[:2] == [["sequence", "step", "prediction 1", "prediction 2"], ["0", "0", "0.0", "1.0"]]
    assert loaded(said)[0].tolist() == SCORES[0].tolist()


def test_the_score_of_values_at_every_step():
    """The mean over the steps whose target is known."""
    signature = Signature(kind="regression per step", input_size=1, output_size=2)
    said = Predictions.of(StepRegressor("gru", 1, 2, 3), SCORES).answers
    targets = [SCORES[0] + 1, np.array([[np.nan, 3.0]])]
    assert score(signature, said, targets) == f"mean squared error: {(6 * 1 + 9) / 7:.6g}"
    assert score(signature, said, ["x", "y"]) == ""


def test_the_score_of_classes_at_every_step():
    signature = Signature(kind="tagging", input_size=1, output_size=2, classes=("a", "b"))
    said = Predictions.of(tagger(), SCORES).answers
    assert score(signature, said, [["b", "b", "b"], ["a"]]) == "error rate: 0.25 (1 of 4)"
