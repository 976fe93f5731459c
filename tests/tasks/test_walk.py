import numpy as np
import pytest
from scipy import stats

from autapse.tasks import Walk

HUGE = 1e5
"""A bias next to which the noise is nothing, so that t0 and v can be read off the walk."""


def read_off(walk: np.ndarray, length: int) -> tuple[float, np.ndarray] | None:
    """t0 and b·v of a walk with a huge bias, or None if it has no step with the whole drift."""
    steps = np.diff(walk[:length].astype(float), axis=0)
    if length < 2 or np.linalg.norm(steps[-1]) < 0.1 * HUGE:
        return None
    drift = steps[-1]
    weights = steps @ drift / (drift @ drift)
    started = int(np.argmax(weights > 0.01))  # weights[i] belongs to time i + 1
    if started == length - 2:
        return None
    return started + 1 - weights[started], drift


@pytest.mark.parametrize("direction", ["uniform", "unit"])
def test_walks_are_as_described(direction):
    """t0, v and N, read off the walks, explain every step and every target and have their distributions."""
    data = Walk(bias=HUGE, direction=direction, test_size=1_000).split("test", seed=0)
    parts, directions = [], []
    for walk, targets, length in zip(data.inputs, data.targets, data.lengths, strict=True):
        assert not walk[0].any()
        found = read_off(walk, length)
        if found is None:
            continue
        t0, drift = found
        weights = [min(max(t - t0, 0), 1) for t in range(length)]
        np.testing.assert_allclose(walk[:length], np.cumsum(weights)[:, None] * drift, atol=0.03 * HUGE)
        assert all(targets[t] == (t > t0) for t in range(length) if abs(t - t0) > 0.02)
        parts.append(t0 / (length - 2))
        directions.append(drift / HUGE)
    # That the last step is a whole one says t0 < N − 1, and nothing else about t0.
    assert len(parts) > 700
    assert stats.kstest(parts, "uniform").pvalue > 0.001
    assert stats.chisquare(np.bincount(data.lengths - 1, minlength=41)[1:]).pvalue > 0.001
    check_directions(direction, np.array(directions))


def check_directions(direction: str, v: np.ndarray) -> None:
    if direction == "uniform":
        assert stats.kstest(v.ravel(), "uniform").pvalue > 0.001
    else:
        np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1, atol=0.001)
        # On the unit sphere of dimension d, (v_i + 1) / 2 has the Beta((d − 1)/2, (d − 1)/2) distribution.
        assert stats.kstest((v[:, 0] + 1) / 2, "beta", args=(3.5, 3.5)).pvalue > 0.001


def test_unbiased_steps_are_standard_normal():
    data = Walk(bias=1e-9, test_size=500).split("test", seed=0)
    steps = [np.diff(x[:n].astype(float), axis=0) for x, n in zip(data.inputs, data.lengths, strict=True)]
    steps = np.concatenate(steps)
    assert stats.kstest(steps.ravel(), "norm").pvalue > 0.001
    correlation = np.corrcoef(steps.T) - np.eye(8)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(len(steps))


def test_baseline_is_the_share_of_the_rarer_class():
    task = Walk(test_size=20_000)
    data = task.split("test", seed=0)
    ones = sum(int((t[:n] == 1).sum()) for t, n in zip(data.targets, data.lengths, strict=True))
    share = ones / data.lengths.sum()
    assert task.baseline(data) == pytest.approx(min(share, 1 - share))
    assert share == pytest.approx(0.5, abs=0.01)  # E Σ_t y_t = E (N + 1)/2, over E (N + 1)


def test_every_walk_contains_its_change():
    data = Walk(test_size=2_000).split("test", seed=0)
    assert data.lengths.min() == 2
    assert data.lengths.max() == 41
    for targets, length in zip(data.targets, data.lengths, strict=True):
        assert targets[0] == 0
        assert targets[length - 1] == 1


@pytest.mark.parametrize("options", [{"max_length": 1}, {"dimensions": 1}, {"dimensions": 1, "direction": "unit"}])
def test_smallest_options(options):
    task = Walk(**options, test_size=50)
    data = task.split("test", seed=0)
    assert data.inputs.shape == (50, task.max_length + 1, task.dimensions)
    assert 0 <= task.floor(data) <= task.baseline(data)
