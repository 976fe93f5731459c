"""One candidate on one fold: nothing comes from the validation part, and weights count."""

import time
from dataclasses import replace

import numpy as np

from autapse.auto import recipe
from autapse.auto.folds import Folded
from autapse.auto.trial import Job, Outcome, run
from autapse.tasks import ArrayTask

X = np.random.default_rng(0).normal(size=(12, 6, 1))
FOLD = np.arange(12) // 8  # the last four validate


def outcome(x: np.ndarray, weights: np.ndarray | None = None, y: list[str] | None = None, **training) -> Outcome:
    task = ArrayTask(x, y or ["a", "b"] * 6, test_share=0.0, validation=0.0, scaling="channel")
    config = recipe(task, model={"hidden_size": (4,)}, training={"steps": 3, **training})
    job = Job(model=config.reader, training=config.training, signature=task.signature(), fold=1, until=time.time() + 60)
    data = task.parts().train
    made = run(job, Folded(data.inputs, data.targets, FOLD, 2, weights).split(1))
    assert made is not None
    return made


def test_the_scale_of_a_fold_comes_from_its_training_part():
    other = X.copy()
    other[-1] *= 50  # a series that validates
    assert outcome(X).losses[:3] == outcome(other).losses[:3]


def test_weights_count_in_the_comparison_and_equal_ones_change_nothing():
    still = {"learning_rate": 1e-12, "weight_decay": 0.0}
    weights = np.arange(1.0, 13.0)
    plain, weighted = outcome(X, **still), outcome(X, weights, **still)
    np.testing.assert_allclose(weighted.losses, np.array(plain.losses) * weights[8:] / weights[8:].mean(), rtol=1e-5)
    same = outcome(X, np.full(12, 3.0))
    assert replace(same, seconds=0.0) == replace(outcome(X), seconds=0.0)


def test_balanced_classes_count_the_same_in_the_comparison():
    """Of the eight training series six are of class a, so that a class b counts three times as much."""
    still = {"learning_rate": 1e-12, "weight_decay": 0.0}
    y = ["a"] * 6 + ["b"] * 2 + ["a", "b"] * 2
    plain, balanced = (outcome(X, None, y, class_weights=kind, **still).losses for kind in ("none", "balanced"))
    ratio = np.array(balanced) / plain
    np.testing.assert_allclose(ratio[1::2] / ratio[::2], 3.0, rtol=1e-5)
