import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from autapse.checks import InputError
from autapse.tasks import SPLITS, Digits

IMAGES, DIGITS = load_digits(return_X_y=True)


def together(task: Digits, seed: int) -> np.ndarray:
    """All images of the three splits with their digits in front, in lexical order."""
    splits = [task.split(split, seed) for split in SPLITS]
    return ordered(np.concatenate([np.column_stack([d.targets, d.inputs[..., 0]]) for d in splits]))


def ordered(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T)]


def test_the_splits_are_the_data_set_each_image_once():
    np.testing.assert_array_equal(together(Digits(), seed=0), ordered(np.column_stack([DIGITS, IMAGES / 16])))


@pytest.mark.parametrize("seed", range(5))
def test_every_split_has_the_digits_in_proportion(seed):
    task = Digits()
    for split, size in zip(SPLITS, (1_197, 300, 300), strict=True):
        counts = np.bincount(task.split(split, seed).targets, minlength=10)
        assert counts.sum() == size
        assert np.abs(counts - size * np.bincount(DIGITS) / 1797).max() <= 2


def test_permuted_pixels_are_the_same_pixels_in_one_other_order():
    plain, permuted = (Digits(permuted=p).split("train", seed=0) for p in (False, True))
    np.testing.assert_array_equal(plain.targets, permuted.targets)
    order = np.random.default_rng(92_916).permutation(64)
    assert (order != np.arange(64)).any()
    np.testing.assert_array_equal(permuted.inputs, plain.inputs[:, order])


def test_permutation_seed_chooses_the_order_and_the_run_seed_does_not():
    pixel_means = [Digits(permuted=True).split("train", seed=s).inputs.mean(axis=0).ravel() for s in (0, 1)]
    assert np.corrcoef(pixel_means)[0, 1] > 0.99
    other = Digits(permuted=True, permutation_seed=1).split("train", seed=0).inputs.mean(axis=0).ravel()
    assert np.corrcoef(pixel_means[0], other)[0, 1] < 0.9


def test_baseline_is_the_share_of_the_other_digits():
    task = Digits()
    data = task.split("validation", seed=0)
    shares = [sum(target == digit for target in data.targets) / 300 for digit in range(10)]
    assert task.baseline(data) == pytest.approx(1 - max(shares))
    assert task.floor(data) is None


def test_missing_scikit_learn_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError) as error:
        Digits().split("train", seed=0)
    assert str(error.value) == "The digits task needs scikit-learn: pip install 'autapse[sklearn]'"
