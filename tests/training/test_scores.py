"""Scores beside the metric, against numbers counted by hand and against their definitions."""

import json

import numpy as np
import pytest
import torch

from autapse.tasks import IGNORE, ArrayTask, Signature
from autapse.training import ModelConfig, RunConfig, TrainingConfig, train
from autapse.training.scores import ClassTally, ValueTally, make_tally


def one_hot(*classes: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(classes), 3).float()


def test_class_scores_of_a_case_counted_by_hand():
    """Class a: 3 of 4 right. Class b: 1 of 2 right. Class c never occurs, and is predicted once."""
    tally = ClassTally(3)
    tally.add(one_hot(0, 0, 0), torch.tensor([0, 0, 0]))
    tally.add(one_hot(2, 0, 1, 1), torch.tensor([0, 1, 1, IGNORE]))
    scores = tally.scores(("a", "b", "c"))
    assert scores["confusion"] == [[3, 0, 1], [1, 1, 0], [0, 0, 0]]
    assert scores["balanced_accuracy"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert scores["macro_f1"] == pytest.approx((2 * 3 / 8 + 2 * 1 / 3) / 2)
    a, b, c = scores["classes"]
    assert a == {"class": "a", "count": 4, "precision": 0.75, "recall": 0.75, "f1": 0.75}
    assert (b["precision"], b["recall"], b["f1"]) == (1.0, 0.5, pytest.approx(2 / 3, abs=1e-6))
    assert (c["count"], c["precision"], c["recall"]) == (0, 0.0, None)


def test_spans_are_counted_whole():
    """Two sequences, one padded. Of the spans A and B of the first, A is right; the second has a wrong end."""
    names = ("B-A", "B-B", "I-A", "O")
    tally = make_tally(Signature(kind="tagging", input_size=1, output_size=4, classes=names))
    true = torch.tensor([[0, 2, 3, 1], [0, 2, IGNORE, IGNORE]])
    predicted = torch.tensor([[0, 2, 3, 3], [0, 3, 0, 0]])
    tally.add(torch.nn.functional.one_hot(predicted, 4).float(), true)
    rows = {row["class"]: row for row in tally.scores(names)["spans"]}
    assert (rows["A"]["count"], rows["A"]["precision"], rows["A"]["recall"]) == (2, 0.5, 0.5)
    assert (rows["B"]["count"], rows["B"]["f1"]) == (1, 0.0)
    assert rows["all"]["f1"] == pytest.approx(2 * 1 / (3 + 2))


def test_value_scores_are_those_of_their_definitions():
    """R² is 1 − Σ(y − ŷ)² / Σ(y − ȳ)², also for values far from 0; NaN is not counted."""
    rng = np.random.default_rng(0)
    true = rng.normal(1e6, [1.0, 5.0], size=(60, 2))
    predicted = true + rng.normal(0, [0.5, 1.0], size=(60, 2))
    tally = ValueTally(2)
    for rows in (slice(0, 7), slice(7, 60)):
        tally.add(torch.from_numpy(predicted[rows]), torch.from_numpy(true[rows]))
    tally.add(torch.zeros(1, 2), torch.full((1, 2), torch.nan))
    scores = tally.scores()
    left = np.square(true - predicted).sum(0) / np.square(true - true.mean(0)).sum(0)
    assert scores["r2"] == pytest.approx(float(np.mean(1 - left)), rel=1e-6)
    assert scores["mean_absolute_error"] == pytest.approx(np.abs(true - predicted).mean())
    each = [(row["target"], row["r2"], row["mean_absolute_error"]) for row in tally.scores(["x", "y"])["targets"]]
    expected = zip("xy", (1 - left).round(6), np.abs(true - predicted).mean(0).round(6), strict=True)
    assert each == list(expected)


def test_equal_targets_have_no_r2():
    tally = ValueTally(1)
    tally.add(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [3.0]]))
    assert tally.scores() == {"r2": None, "mean_absolute_error": 1.5, "targets": None}


def test_language_models_have_no_table_of_classes():
    assert make_tally(Signature(kind="language", input_size=1, output_size=50)) is None
    assert make_tally(Signature(kind="tagging", input_size=1, output_size=10_000)) is None


def series(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 60)
    return rng.normal(size=(60, 8, 1)) + 3 * y[:, None, None], y


def short(task: ArrayTask) -> RunConfig:
    return RunConfig(
        task=task, model=ModelConfig(hidden_size=(8,)), training=TrainingConfig(steps=60, learning_rate=0.02)
    )


def test_a_summary_has_the_scores_of_its_test_data(tmp_path):
    x, y = series()
    summary = train(short(ArrayTask(x, np.where(y, "up", "down"))), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    confusion = np.array(summary.confusion)
    assert summary.test == pytest.approx(1 - np.trace(confusion) / confusion.sum())
    assert [row["class"] for row in summary.classes] == ["down", "up"]
    assert [row["count"] for row in summary.classes] == confusion.sum(1).tolist()
    assert not summary.trivial
    assert summary.r2 is None


def test_values_are_scored_in_their_own_unit(tmp_path):
    x, _ = series()
    target = 1000 + 50 * x.mean((1, 2))
    summary = train(short(ArrayTask(x, target)), tmp_path / "run")
    assert 0 < summary.r2 <= 1
    assert summary.mean_absolute_error < np.sqrt(summary.test) * 1.0001  # never above the root mean square
    assert summary.mean_absolute_error > 0.01 * target.std()
    assert summary.confusion is None


def test_a_model_that_learned_nothing_is_trivial(tmp_path):
    x, y = series()
    noise = np.random.default_rng(1).permutation(y)
    config = short(ArrayTask(np.zeros_like(x), noise))
    assert train(config, tmp_path / "run").trivial


def test_a_final_model_needs_no_test_data(tmp_path):
    x, y = series()
    task = ArrayTask(x, y, test_share=0, validation=0)
    summary = train(short(task), tmp_path / "run")
    assert (summary.test, summary.baseline, summary.validation) == (None, None, None)
    assert not summary.trivial
    assert summary.best_step == 60
