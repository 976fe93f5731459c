"""What every task promises, whatever it is about."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.tasks import (
    GENERATED,
    IGNORE,
    SPLITS,
    TASKS,
    Adding,
    Copy,
    Data,
    Digits,
    Task,
    Walk,
    WalkVariance,
    task_class,
)
from autapse.tasks.base import generator, majority_error
from autapse.tasks.recall import Recall

SMALL = {"train_size": 60, "validation_size": 40, "test_size": 50}
# Those whose data lie in files have their own tests, in test_stored_tasks.py.
# Short lists would be in two splits by chance.
LONG = {"repeat-copy": {"shortest": 8}, "priority-sort": {"shortest": 8}}
EVERY_TASK = pytest.mark.parametrize(
    "task", [kind(**SMALL, **LONG.get(kind.name, {})) for kind in GENERATED], ids=[kind.name for kind in GENERATED]
)


def same(one: Data, other: Data) -> bool:
    return all(
        np.array_equal(getattr(one, part), getattr(other, part))
        for part in ("inputs", "targets", "lengths")
        if getattr(one, part) is not None
    )


@EVERY_TASK
@pytest.mark.parametrize("split", SPLITS)
def test_data_have_the_promised_form(task: Task, split):
    data = task.split(split, seed=3)
    N, T, D = data.inputs.shape
    assert SMALL[f"{split}_size"] == N
    assert len(data) == N
    assert task.input_size == D
    assert data.inputs.dtype == np.float32
    shape, dtype = {
        "regression": ((N, task.output_size), np.float32),
        "classification": ((N,), np.int64),
        "tagging": ((N, T), np.int64),
    }[task.kind]
    assert data.targets.shape == shape
    assert data.targets.dtype == dtype
    past = np.zeros((N, T), bool) if data.lengths is None else np.arange(T) >= data.lengths[:, None]
    assert not data.inputs[past].any()
    if task.kind == "tagging":
        assert (data.targets[past] == IGNORE).all()
        assert isinstance(task, Recall) or (data.targets[~past] != IGNORE).all()  # where only the answer counts
    if task.kind != "regression":
        assert set(np.unique(data.targets)) - {IGNORE} <= set(range(task.output_size))


@EVERY_TASK
def test_same_seed_same_bits_and_other_seed_other_data(task: Task):
    for split in SPLITS:
        first = task.split(split, seed=5)
        assert same(first, replace(task).split(split, seed=5))
        assert not same(first, task.split(split, seed=6))


@EVERY_TASK
def test_no_sequence_is_in_two_splits(task: Task):
    # A walk of one step is the origin alone, in every split.
    seen = [{row.tobytes() for row in task.split(s, seed=0).inputs if row.any()} for s in SPLITS]
    assert sum(map(len, seen)) > 135
    assert len(set.union(*seen)) == sum(map(len, seen))


def test_splits_and_seeds_are_uncorrelated():
    draws = [generator(split, seed).standard_normal(10_000) for split in SPLITS for seed in (0, 1, 2)]
    correlation = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlation).max() < 4.5 / np.sqrt(10_000)  # 4.5 standard errors, 36 pairs


@EVERY_TASK
def test_scores_are_ordered(task: Task):
    data = task.split("test", seed=1)
    floor = task.floor(data)
    assert 0 <= (floor or 0) < task.baseline(data)
    assert task.solved is None or (floor or 0) < task.solved < task.baseline(data)


@pytest.mark.parametrize("kind", TASKS.values(), ids=list(TASKS))
def test_unknown_options_are_errors(kind: type[Task]):
    with pytest.raises(TypeError, match="lenght"):
        kind(lenght=3)


def test_tasks_by_name():
    assert {name: kind.name for name, kind in TASKS.items()} == {name: name for name in TASKS}
    assert len(TASKS) == 23
    assert task_class("walk-variance") is WalkVariance
    with pytest.raises(InputError) as error:
        task_class("ading")
    known = "adding, copy, repeat-copy, associative-recall, priority-sort, digits, walk, walk-variance, mnist"
    known += (
        ", fashion-mnist, cifar10, noisy-cifar10, har, dsa, speech, yelp, imdb, ptb, pos, babi, uea, file, forecast"
    )
    assert str(error.value) == f"task must be one of {known}; got 'ading'. Did you mean 'adding'?"


def test_majority_error_counts_valid_targets_only():
    assert majority_error(np.array([[0, 1, 1, 1], [0, 1, IGNORE, IGNORE]])) == pytest.approx(2 / 6)


def test_neither_torch_nor_scikit_learn_is_imported():
    code = "import sys, autapse.tasks; print({'torch', 'sklearn', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


BAD_OPTIONS = [
    (Adding, {"train_size": 0}, "train_size must be an integer of at least 1; got 0."),
    (Copy, {"validation_size": 2.5}, "validation_size must be an integer of at least 1; got 2.5."),
    (Walk, {"test_size": "many"}, "test_size must be an integer of at least 1; got 'many'."),
    (Adding, {"length": 1}, "length must be an integer of at least 2; got 1."),
    (Adding, {"markers": "half"}, "markers must be one of anywhere, halves; got 'half'. Did you mean 'halves'?"),
    (Copy, {"delay": 0}, "delay must be an integer of at least 1; got 0."),
    (Copy, {"memory": 0}, "memory must be an integer of at least 1; got 0."),
    (Copy, {"symbols": 1}, "symbols must be an integer of at least 2; got 1."),
    (Walk, {"max_length": 0}, "max_length must be an integer of at least 1; got 0."),
    (Walk, {"dimensions": 0}, "dimensions must be an integer of at least 1; got 0."),
    (Walk, {"bias": 0}, "bias must be a finite number above 0; got 0.0."),
    (Walk, {"bias": float("nan")}, "bias must be a finite number above 0; got nan."),
    (Walk, {"direction": "up"}, "direction must be one of uniform, unit; got 'up'."),
    (WalkVariance, {"length": 0}, "length must be an integer of at least 1; got 0."),
    (WalkVariance, {"variances": 1.0}, "variances must be two numbers, one per class; got 1.0."),
    (WalkVariance, {"variances": (1.0,)}, "variances must be two numbers, one per class; got (1.0,)."),
    (WalkVariance, {"variances": (0.1, -1)}, "variances[1] must be a finite number above 0; got -1.0."),
    (WalkVariance, {"variances": (1.0, 1.0)}, "variances must differ between the classes; got (1.0, 1.0)."),
    (Digits, {"permuted": "yes"}, "permuted must be True or False; got 'yes'."),
    (Digits, {"permutation_seed": -1}, "permutation_seed must be an integer of at least 0; got -1."),
    (
        Digits,
        {"train_size": 1_198},
        "train_size + validation_size + test_size must be at most 1797, the number of images; got 1798.",
    ),
]


@pytest.mark.parametrize(("kind", "options", "message"), BAD_OPTIONS)
def test_bad_options_are_named(kind, options, message):
    with pytest.raises(InputError) as error:
        kind(**options)
    assert str(error.value) == message


@EVERY_TASK
def test_bad_splits_and_seeds_are_named(task: Task):
    with pytest.raises(InputError, match=r"^split must be one of train, validation, test; got 'tests'\. Did you mean"):
        task.split("tests", seed=0)
    with pytest.raises(InputError, match=r"^seed must be an integer of at least 0; got -1\.$"):
        task.split("test", seed=-1)
