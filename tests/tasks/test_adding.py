import numpy as np
import pytest
from scipy import stats

from autapse.tasks import Adding


@pytest.mark.parametrize("markers", ["anywhere", "halves"])
@pytest.mark.parametrize("length", [2, 3, 7, 100])
def test_target_is_the_sum_at_the_two_marked_steps(length, markers):
    data = Adding(length=length, markers=markers, test_size=200).split("test", seed=0)
    for sequence, target in zip(data.inputs, data.targets, strict=True):
        marked = [t for t in range(length) if sequence[t, 1] == 1]
        assert len(marked) == 2
        assert sequence[:, 1].sum() == 2
        assert target[0] == pytest.approx(float(sequence[marked[0], 0]) + float(sequence[marked[1], 0]), abs=1e-6)
        if markers == "halves":
            assert marked[0] < length // 2 <= marked[1]


def test_values_are_uniform():
    values = Adding(length=50).split("test", seed=0).inputs[..., 0]
    assert values.min() >= 0
    assert values.max() < 1
    assert stats.kstest(values.ravel(), "uniform").pvalue > 0.001


def test_any_two_steps_are_equally_likely():
    data = Adding(length=5, test_size=20_000).split("test", seed=0)
    pairs = [tuple(np.flatnonzero(marks)) for marks in data.inputs[..., 1]]
    _, counts = np.unique(pairs, axis=0, return_counts=True)
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > 0.001


def test_baseline_is_the_error_of_predicting_one():
    task = Adding(test_size=50_000, length=4)
    data = task.split("test", seed=0)
    error = np.square(data.targets - 1.0)
    assert task.baseline(data) == pytest.approx(1 / 6, rel=1e-12)
    assert task.baseline(data) == pytest.approx(error.mean(), abs=4 * error.std() / np.sqrt(len(data)))
