import numpy as np
import pytest
from scipy import stats

from autapse.tasks import IGNORE, SlowAndFast


@pytest.mark.parametrize(
    ("bursts", "burst", "periods"), [(8, 12, (3.0, 4.0)), (1, 24, (6.0, 4.0)), (3, 20, (2.5, 10.0))]
)
def test_the_targets_follow_from_context_and_period(bursts, burst, periods):
    """Without noise: the period is that of the sine which is the burst."""
    task = SlowAndFast(bursts=bursts, burst=burst, periods=periods, noise=0.0, test_size=40)
    data = task.split("test", seed=0)
    assert data.inputs.shape == (40, bursts * burst, 2)
    steps = np.arange(burst)
    waves = [np.sin(2 * np.pi * steps / p) for p in periods]
    for sequence, targets in zip(data.inputs, data.targets, strict=True):
        assert abs(sequence[0, 0]) == 1
        assert not sequence[1:, 0].any()
        for n in range(bursts):
            part = sequence[n * burst : (n + 1) * burst, 1].astype(np.float64)
            errors = [np.square(part - wave).sum() for wave in waves]
            assert min(errors) < 1e-8 < max(errors)
            second = int(np.argmin(errors)) == 1
            assert targets[(n + 1) * burst - 1] == second + 2 * (sequence[0, 0] == 1)
        assert (np.delete(targets, np.arange(burst - 1, bursts * burst, burst)) == IGNORE).all()


def test_only_the_last_burst_may_be_asked():
    every = SlowAndFast(bursts=3, burst=5, test_size=20).split("test", seed=0)
    task = SlowAndFast(bursts=3, burst=5, test_size=20, asked="last")
    last = task.split("test", seed=0)
    np.testing.assert_array_equal(last.inputs, every.inputs)
    np.testing.assert_array_equal(last.targets[:, -1], every.targets[:, -1])
    assert (last.targets[:, :-1] == IGNORE).all()
    assert task.floor(last) <= task.baseline(last)


def test_context_and_periods_are_independent_and_the_noise_has_its_size():
    data = SlowAndFast(test_size=5000, noise=0.25).split("test", seed=0)
    asked = data.targets[:, 11::12]
    assert stats.chisquare(np.bincount(asked[:, 0], minlength=4)).pvalue > 1e-4
    table = [[int(((asked[:, 0] == y) & (asked[:, 1] % 2 == z)).sum()) for y in range(4)] for z in (0, 1)]
    assert stats.chi2_contingency(table).pvalue > 1e-4  # bursts are independent
    assert abs(data.inputs[:, 1:, 0].std() - 0.25) < 0.005


@pytest.mark.parametrize(
    ("noise", "burst", "periods"), [(0.3, 12, (3.0, 4.0)), (1.0, 6, (5.0, 4.0)), (0.0, 12, (3.0, 4.0))]
)
def test_the_floor_is_the_error_of_two_independent_decisions_in_normal_noise(noise, burst, periods):
    """Two points at the distance d, with noise of the deviation σ: the better decision is wrong with Φ(−d/2σ)."""
    task = SlowAndFast(test_size=4000, bursts=4, burst=burst, periods=periods, noise=noise)
    waves = [np.sin(2 * np.pi * np.arange(burst) / period) for period in periods]
    distances = np.array([2.0, np.linalg.norm(waves[0] - waves[1])])
    right = 1.0 if noise == 0 else np.prod(stats.norm.cdf(distances / (2 * noise)))
    # The four bursts of a sequence share the decision on the context, so that there are 4000 independent ones.
    assert task.floor(task.split("test", seed=0)) == pytest.approx(
        1 - right, abs=5 * np.sqrt(right * (1 - right) / 4000)
    )
