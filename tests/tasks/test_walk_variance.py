import math

import numpy as np
import pytest
from scipy import stats

from autapse.tasks import WalkVariance


@pytest.mark.parametrize("size", [1, 101, 1_000])
def test_half_of_the_walks_are_of_each_class(size):
    targets = WalkVariance(test_size=size).split("test", seed=0).targets
    assert np.bincount(targets, minlength=2).tolist() == [size - size // 2, size // 2]


def test_classes_are_mixed():
    targets = WalkVariance(test_size=1_000).split("test", seed=0).targets
    assert abs(np.corrcoef(targets[1:], targets[:-1])[0, 1]) < 4 / np.sqrt(1_000)


@pytest.mark.parametrize(("target", "variance"), [(0, 0.1), (1, 1.0)])
def test_steps_are_normal_with_the_variance_of_the_class(target, variance):
    data = WalkVariance(test_size=400).split("test", seed=0)
    steps = []
    for walk in data.inputs[data.targets == target].astype(float):
        here = np.zeros(2)
        for there in walk:
            steps.append(there - here)
            here = there
    steps = np.array(steps)
    assert len(steps) == 200 * 100
    assert stats.kstest(steps.ravel() / math.sqrt(variance), "norm").pvalue > 0.001
    assert abs(np.corrcoef(steps.T)[0, 1]) < 4 / np.sqrt(len(steps))


@pytest.mark.parametrize("variances", [(0.8, 1.2), (1.2, 0.8), (0.1, 1.0)])
def test_floor_is_the_error_of_the_likelihood_ratio_test(variances):
    """The energy of a walk is σ·χ²: with the classes equally likely, the test compares it to one threshold."""
    task = WalkVariance(variances=variances, length=5, test_size=20_000)
    small, large = sorted(variances)
    threshold = 10 * math.log(large / small) / (1 / small - 1 / large)
    error = (stats.chi2.sf(threshold / small, 10) + stats.chi2.cdf(threshold / large, 10)) / 2
    found = task.floor(task.split("test", seed=0))
    assert found == pytest.approx(error, abs=4 * math.sqrt(error * (1 - error) / 20_000))
    assert found > 0


def test_the_papers_walks_can_be_told_apart_without_error():
    task = WalkVariance()
    data = task.split("test", seed=0)
    assert data.inputs.shape == (10_000, 100, 2)
    assert task.floor(data) == 0
    assert task.baseline(data) == 0.5
