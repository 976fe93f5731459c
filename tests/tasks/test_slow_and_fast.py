import numpy as np
import pytest
from scipy import stats

from autapse.tasks import IGNORE, SlowAndFast


@pytest.mark.parametrize(
    ("bursts", "burst", "periods"), [(8, 12, (3.0, 4.0)), (1, 24, (6.0, 4.0)), (3, 20, (2.5, 10.0))]
)
def test_the_targets_follow_from_context_and_period(bursts, burst, periods):
    """Without noise: the period is that of the sine which fits a burst, by least squares."""
    task = SlowAndFast(bursts=bursts, burst=burst, periods=periods, noise=0.0, test_size=40)
    data = task.split("test", seed=0)
    assert data.inputs.shape == (40, bursts * burst, 2)
    steps = np.arange(burst)
    waves = [np.stack([np.sin(2 * np.pi * steps / p), np.cos(2 * np.pi * steps / p)], axis=1) for p in periods]
    for sequence, targets in zip(data.inputs, data.targets, strict=True):
        assert abs(sequence[0, 0]) == 1
        assert not sequence[1:, 0].any()
        for n in range(bursts):
            part = sequence[n * burst : (n + 1) * burst, 1].astype(np.float64)
            errors = [np.square(part - wave @ np.linalg.lstsq(wave, part, rcond=None)[0]).sum() for wave in waves]
            assert min(errors) < 1e-8 < max(errors)
            second = int(np.argmin(errors)) == 1
            assert targets[(n + 1) * burst - 1] == second + 2 * (sequence[0, 0] == 1)
        assert (np.delete(targets, np.arange(burst - 1, bursts * burst, burst)) == IGNORE).all()


def test_context_and_periods_are_independent_and_the_noise_has_its_size():
    data = SlowAndFast(test_size=5000, noise=0.25).split("test", seed=0)
    asked = data.targets[:, 11::12]
    assert stats.chisquare(np.bincount(asked[:, 0], minlength=4)).pvalue > 1e-4
    table = [[int(((asked[:, 0] == y) & (asked[:, 1] % 2 == z)).sum()) for y in range(4)] for z in (0, 1)]
    assert stats.chi2_contingency(table).pvalue > 1e-4  # bursts are independent
    assert abs(data.inputs[:, 1:, 0].std() - 0.25) < 0.005


def test_the_noise_leaves_the_periods_recognisable():
    """A matched filter on each burst, with the true context, is almost always right at the defaults."""
    data = SlowAndFast(test_size=500).split("test", seed=0)
    steps = np.arange(12)
    power = [
        np.abs(data.inputs[:, :, 1].reshape(500, 8, 12) @ np.exp(2j * np.pi * steps / period)) for period in (3.0, 4.0)
    ]
    guess = (power[1] > power[0]) + 2 * (data.inputs[:, :1, 0] > 0)
    assert (guess != data.targets[:, 11::12]).mean() < 0.02
