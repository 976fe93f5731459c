"""What every task promises, whatever it is about."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.ragged import Ragged
from autapse.tasks import (
    GENERATED,
    IGNORE,
    SPLITS,
    TASKS,
    Adding,
    Brackets,
    Copy,
    Data,
    Digits,
    MackeyGlass,
    Pointers,
    SlowAndFast,
    Task,
    Walk,
    WalkVariance,
    task_class,
)
from autapse.tasks.base import dense, generator, majority_error
from autapse.tasks.recall import Recall

SMALL = {"train_size": 60, "validation_size": 40, "test_size": 50}
# Those whose data lie in files have their own tests, in test_stored_tasks.py.
WRITTEN = ("generation", "translation")
# Those have their own tests too: images and trees are ragged.
STRUCTURES = ("shapes", "expressions", "expressions-text")
# Short lists would be in two splits by chance.
LONG = {"repeat-copy": {"shortest": 8}, "priority-sort": {"shortest": 8}}
EVERY_TASK, READ, WRITE = (
    pytest.mark.parametrize(
        "task", [kind(**SMALL, **LONG.get(kind.name, {})) for kind in kinds], ids=[kind.name for kind in kinds]
    )
    for kinds in (
        GENERATED,
        [kind for kind in GENERATED if kind.kind not in WRITTEN and kind.name not in STRUCTURES],
        [kind for kind in GENERATED if kind.kind in WRITTEN],
    )
)
WITH_GAPS = pytest.mark.parametrize(
    "task", [kind(missing=0.3, **SMALL) for kind in (Brackets, MackeyGlass)], ids=["brackets", "mackey-glass"]
)


def same(one: Data, other: Data) -> bool:
    pairs = [(getattr(one, part), getattr(other, part)) for part in ("inputs", "targets", "lengths")]
    pairs += [(a.lengths, b.lengths) for a, b in pairs if isinstance(a, Ragged)]
    return all(np.array_equal(dense(a), dense(b)) for a, b in pairs if a is not None)


@WITH_GAPS
def test_missing_elements_are_marked(task: Task):
    test_sequences_to_write_have_the_promised_form(task, "train")
    assert task.floor(task.split("test", 0)) is None


@WRITE
@pytest.mark.parametrize("split", SPLITS)
def test_sequences_to_write_have_the_promised_form(task: Task, split):
    data, signature = task.split(split, seed=3), task.signature()
    written = signature.written
    assert len(data) == len(data.targets) == SMALL[f"{split}_size"]
    assert isinstance(data.targets, Ragged)
    assert 0 < data.targets.lengths.max() <= written.longest
    assert dense(data.inputs).shape[-1] == signature.input_size
    values = data.targets.values
    if written.symbols:
        assert values.dtype == np.int64
        assert set(np.unique(values)) - {IGNORE} <= set(range(signature.output_size))
        assert len(signature.classes) == signature.output_size
    else:
        assert values.dtype == np.float32
        assert values.shape[1] == signature.output_size == written.values + written.binary
    if written.depends == "sequence":
        assert isinstance(data.inputs, Ragged)
        np.testing.assert_array_equal(data.inputs.lengths, data.targets.lengths)
    assert written.gaps == bool((np.isnan(values) if values.dtype.kind == "f" else values == IGNORE).any())
    columns = np.moveaxis(dense(data.inputs), -1, 0)
    for words, column in zip(signature.vocabularies, columns, strict=False):
        assert set(np.unique(column)) <= set(range(len(words)))


@READ
@pytest.mark.parametrize("split", SPLITS)
def test_data_have_the_promised_form(task: Task, split):
    data = task.split(split, seed=3)
    N, T, D = data.inputs.shape
    assert SMALL[f"{split}_size"] == N
    assert len(data) == N
    assert task.input_size == D
    assert data.inputs.dtype == np.float32
    if task.kind == "regression per step":
        assert isinstance(data.targets, Ragged)
        assert data.targets.lengths.tolist() == [T] * N
        assert data.targets.values.shape == (N * T, task.output_size)
        assert data.targets.values.dtype == np.float32
        return
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
        assert (
            isinstance(task, Recall | SlowAndFast) or (data.targets[~past] != IGNORE).all()
        )  # where only the answer counts
    if task.kind != "regression":
        assert set(np.unique(data.targets)) - {IGNORE} <= set(range(task.output_size))


@EVERY_TASK
def test_same_seed_same_bits_and_other_seed_other_data(task: Task):
    for split in SPLITS:
        first = task.split(split, seed=5)
        assert same(first, replace(task).split(split, seed=5))
        assert not same(first, task.split(split, seed=6))


@WRITE
def test_no_long_sequence_is_written_in_two_splits(task: Task):
    # Short ones may be the same by chance.
    targets = [task.split(s, seed=0).targets for s in SPLITS]
    seen = [{row.tobytes() for row in (part[n] for n in range(len(part))) if row.size > 12} for part in targets]
    assert len(set.union(*seen)) == sum(map(len, seen))


@READ
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
    least = -np.inf if task.metric == "nats per step" else 0  # densities have no lower limit
    assert least <= (least if floor is None else floor) < task.baseline(data)
    assert task.solved is None or (floor or 0) < task.solved < task.baseline(data)


@pytest.mark.parametrize("kind", TASKS.values(), ids=list(TASKS))
def test_unknown_options_are_errors(kind: type[Task]):
    with pytest.raises(TypeError, match="lenght"):
        kind(lenght=3)


def test_tasks_by_name():
    assert {name: kind.name for name, kind in TASKS.items()} == {name: name for name in TASKS}
    assert task_class("walk-variance") is WalkVariance
    with pytest.raises(InputError) as error:
        task_class("ading")
    assert str(error.value) == f"task must be one of {', '.join(TASKS)}; got 'ading'. Did you mean 'adding'?"
    assert {"adding", "walk", "mnist", "har", "ptb", "babi", "file", "forecast"} <= set(TASKS)


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
    (Adding, {"markers": "half"}, "markers must be one of anywhere, halves, early; got 'half'. Did you mean 'halves'?"),
    (Copy, {"delay": 0}, "delay must be an integer of at least 1; got 0."),
    (Copy, {"memory": 0}, "memory must be an integer of at least 1; got 0."),
    (Copy, {"symbols": 1}, "symbols must be an integer of at least 2; got 1."),
    (SlowAndFast, {"bursts": 0}, "bursts must be an integer of at least 1; got 0."),
    (SlowAndFast, {"burst": 1}, "burst must be an integer of at least 2; got 1."),
    (SlowAndFast, {"periods": (3.0, 3.0)}, "periods must be different; got (3.0, 3.0)."),
    (SlowAndFast, {"periods": (1.0, 3.0)}, "periods must be a finite number at least 2; got 1.0."),
    (SlowAndFast, {"asked": "first"}, "asked must be one of every, last; got 'first'."),
    (SlowAndFast, {"noise": -0.1}, "noise must be a finite number at least 0; got -0.1."),
    (Pointers, {"places": 1}, "places must be an integer of at least 2; got 1."),
    (Pointers, {"hops": 0}, "hops must be an integer of at least 1; got 0."),
    (Pointers, {"tables": 0}, "tables must be an integer of at least 1; got 0."),
    (Pointers, {"pause": -1}, "pause must be an integer of at least 0; got -1."),
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
