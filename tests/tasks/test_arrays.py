"""A task from arrays: what is understood, what is refused, and that it trains."""

import dataclasses

import numpy as np
import pytest
import torch

import autapse
from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks import ArrayTask
from autapse.training import ModelConfig, RunConfig, TrainingConfig, train
from autapse.training.loading import check_data

X = np.random.default_rng(0).normal(5.0, 2.0, (20, 7, 3))
CLASSES = ["no", "yes"] * 10


def test_sequences_are_divided_and_every_one_is_used_once():
    task = ArrayTask(X, CLASSES)
    parts = [task.split(split, seed=3) for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [12, 4, 4]
    seen = np.concatenate([part.inputs.values.reshape(-1, 7, 3) for part in parts])
    assert sorted(seen[:, 0, 0].tolist()) == sorted(X[:, 0, 0].astype(np.float32).tolist())
    for part in parts:
        assert np.bincount(part.targets).tolist() == [len(part) // 2] * 2  # each class in proportion
        for sequence, target in zip(part.inputs.values.reshape(-1, 7, 3), part.targets, strict=True):
            (index,) = np.flatnonzero(X[:, 0, 0].astype(np.float32) == sequence[0, 0])
            assert CLASSES[index] == task.signature().classes[target]


@pytest.mark.parametrize(
    ("y", "kind", "classes", "outputs"),
    [
        (CLASSES, "classification", ("no", "yes"), 2),
        (np.arange(20) % 3 + 9, "classification", ("9", "10", "11"), 3),
        (np.array([True, False] * 10), "classification", ("False", "True"), 2),
        (np.linspace(0, 1, 20), "regression", (), 1),
        (X[:, 0, :2], "regression", (), 2),
        (np.arange(140).reshape(20, 7) % 4, "tagging", ("0", "1", "2", "3"), 4),
        ([["a"] * 7, ["b"] * 7] * 10, "tagging", ("a", "b"), 2),
    ],
)
def test_what_is_learned_is_read_off_the_targets(y, kind, classes, outputs):
    task = ArrayTask(X, y)
    signature = task.signature()
    assert (task.kind, signature.classes, signature.output_size) == (kind, classes, outputs)
    data = task.split("train", seed=0)
    if kind == "tagging":
        assert isinstance(data.targets, Ragged)
        assert np.array_equal(data.targets.lengths, data.inputs.lengths)


def test_the_model_standardises_channels_by_the_training_part():
    task = ArrayTask(X, CLASSES)
    used = np.concatenate([task.split(split, 0).inputs.values for split in ("train", "validation")])
    np.testing.assert_allclose(task.signature().mean, used.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(task.signature().scale, used.std(axis=0), rtol=1e-5)


def test_padded_arrays_and_lists_are_the_same():
    lengths = np.arange(20) % 7 + 1
    listed = ArrayTask([x[:n] for x, n in zip(X, lengths, strict=True)], CLASSES)
    padded = ArrayTask(X, CLASSES, lengths=lengths)
    assert listed == padded
    assert listed != ArrayTask(X, CLASSES)
    one, other = (task.split("train", 0).inputs for task in (listed, padded))
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.lengths, other.lengths)
    assert ArrayTask(X[:, :, 0], CLASSES).signature().input_size == 1


def test_a_test_set_of_ones_own():
    task = ArrayTask(X, CLASSES, test=(X[:3, :4], ["yes", "yes", "perhaps"]))
    assert task.signature().classes == ("no", "perhaps", "yes")
    assert task.split("test", 0).targets.tolist() == [2, 2, 1]
    assert len(task.split("train", 0)) + len(task.split("validation", 0)) == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[0, 0], CLASSES), r"x must have shape \[N, T, D\] or \[N, T\], or be a list; got \(3,\)"),
        ((X, CLASSES[:5]), r"y must have one entry per sequence"),
        ((X[:2], CLASSES[:2]), "x must have at least three series"),
        ((np.where(X > 8, np.nan, X), CLASSES), r"x\[\d+\] must have finite values only; got 'NaN or infinity'"),
        ((X, np.where(np.arange(20) > 8, np.inf, 0.0)), "y must have finite values only"),
        ((X.astype(str), CLASSES), r"x\[0\] must have numbers; got '<U"),
        ((X, CLASSES, [8] * 20), "lengths must be 20 integers from 1 to 7"),
        ((X, CLASSES, [0] * 20), "lengths must be 20 integers from 1 to 7"),
        ((list(X), CLASSES, [2] * 20), "lengths must be None if x is a list"),
        (
            ([X[0], X[0, :, 0], X[1]], CLASSES[:3]),
            r"x must have the same number of channels in every sequence; got \[1, 3\]",
        ),
        ((X, [[1, 2]] * 20), "y must have one entry per sequence"),
        ((X, np.ones(20, dtype=complex)), "y must be integers or text for classes"),
    ],
)
def test_arrays_that_do_not_fit_are_named(arguments, message):
    with pytest.raises(checks.InputError, match=message):
        ArrayTask(*arguments)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (X, r"test must be \(x, y\) or \(x, y, lengths\); got 'ndarray'"),
        ((X[:, :, :2], CLASSES), "x of test must have 3 channels, as x has; got 2"),
    ],
)
def test_test_sets_that_do_not_fit_are_named(test, message):
    with pytest.raises(checks.InputError, match=message):
        ArrayTask(X, CLASSES, test=test)


def test_it_trains_and_the_model_is_loaded_without_the_arrays(tmp_path):
    """The class is the sign of the mean."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = rng.normal(size=(200, 9, 1)) + (2 * y - 1)[:, None, None]
    settings = TrainingConfig(steps=150, batch_size=32, eval_every=50, learning_rate=0.02)
    config = RunConfig(task=ArrayTask(x, y), model=ModelConfig(cell="rin", hidden_size=(8,)), training=settings)
    summary = train(config, tmp_path / "run")
    assert summary["test"] < 0.1
    assert summary["baseline"] > 0.3
    model = autapse.load(tmp_path / "run")
    found = model.predict(torch.from_numpy(x).float())
    assert float((found.numpy() == y).mean()) > 0.9


def test_a_run_of_an_older_version_keeps_its_scaling_and_has_no_names_of_channels():
    config = RunConfig(task=ArrayTask(X, CLASSES, channels=["x", "y", "z"]))
    assert config.task.signature().channels == ("x", "y", "z")
    content = config.to_json()
    assert content["task"].pop("scaling") == "auto"
    assert RunConfig.from_json(content).task.scaling == "channel"
    present = config.task.signature()
    check_data(present, dataclasses.replace(present, channels=()), "an old run")
    with pytest.raises(checks.InputError, match="channels differ"):
        check_data(present, dataclasses.replace(present, channels=("y", "x", "z")), "another run")


def test_names_of_channels_must_be_as_many_as_the_channels():
    with pytest.raises(checks.InputError, match="channels must name all 3 channels of x"):
        ArrayTask(X, CLASSES, channels=["x", "y"])


VALUES = X[:, :, 0]


@pytest.mark.parametrize(
    ("y", "targets", "kind", "outputs"),
    [
        (VALUES, "step", "regression per step", 1),
        (VALUES, "series", "regression", 7),
        (list(VALUES), "step", "regression per step", 1),
        (X[:, :, :2], "auto", "regression per step", 2),
        (X[:, :3, 0], "auto", "regression", 3),
        ([x[:, 0] for x in X], "step", "regression per step", 1),
    ],
)
def test_values_at_every_step(y, targets, kind, outputs):
    task = ArrayTask(X, y, targets=targets)
    assert (task.kind, task.signature().output_size, task.metric) == (kind, outputs, "mean squared error")
    data = task.split("test", 0)
    assert isinstance(data.targets, Ragged) == (kind == "regression per step")
    mean = np.asarray(y)[[n for n in range(20) if n not in _places(data)]].reshape(-1, outputs).mean(axis=0)
    rows = data.targets.values if isinstance(data.targets, Ragged) else data.targets
    assert task.baseline(data) == pytest.approx(float(np.square(rows - mean).mean()), rel=1e-4)


def _places(data):
    firsts = X[:, 0, 0].astype(np.float32)
    return [int(np.flatnonzero(firsts == data.inputs[n][0, 0])[0]) for n in range(len(data))]


def test_values_whose_shape_does_not_tell_are_refused():
    with pytest.raises(checks.InputError, match=r'Pass targets="step" or targets="series"\.'):
        ArrayTask(X, VALUES)
    with pytest.raises(checks.InputError, match="y must have one entry per sequence"):
        ArrayTask(X, X[:, :3, 0], targets="step")


def test_missing_values_are_kept_if_an_option_says_what_to_do():
    gaps = np.where(X > 8, np.nan, X)
    data = ArrayTask(gaps, CLASSES, missing="mask", test_share=0, validation=0).split("train", 0)
    np.testing.assert_array_equal(data.inputs.values, gaps.reshape(-1, 3).astype(np.float32))
    with pytest.raises(checks.InputError, match=r'To allow missing values .* choose missing="mask"'):
        ArrayTask(gaps, CLASSES)


def test_the_trivial_class_is_that_of_the_training_sequences():
    x = np.zeros((6, 4, 1))
    task = ArrayTask(x, ["a", "a", "a", "a", "b", "b"], test=(x[:3], ["b", "b", "a"]))
    assert task.baseline(task.split("test", seed=0)) == pytest.approx(2 / 3)


def test_a_channel_without_values_is_named():
    x = np.random.default_rng(0).normal(size=(6, 4, 2))
    x[..., 1] = np.nan
    task = ArrayTask(x, ["a", "b"] * 3, missing="mask", channels=["speed", "empty"])
    with pytest.raises(checks.InputError, match="Channel 'empty' has no values in the training data"):
        task.signature()
