"""narma, memory-capacity, lorenz and spike-patterns: against loops, SciPy and what is known of the equations."""

import numpy as np
import pytest
import scipy.integrate

from autapse.checks import InputError
from autapse.tasks import NARMA, Lorenz, MemoryCapacity, SpikePatterns
from autapse.tasks.lorenz import DEVIATION, MEAN, lorenz


def targets(data, n, length):
    return data.targets.values.reshape(-1, length, data.targets.values.shape[1])[n]


@pytest.mark.parametrize("order", [1, 10])
def test_narma_is_its_equation(order):
    data = NARMA(length=60, order=order, train_size=3).split("train", 0)
    for n in range(3):
        x, y = [float(v) for v in data.inputs[n, :, 0]], []
        for t in range(60):
            last = y[t - 1] if t else 0.0
            total = sum(y[t - i] for i in range(1, order + 1) if t >= i)
            product = x[t - order] * x[t - 1] if t >= order else 0.0
            y.append(0.3 * last + 0.05 * last * total + 1.5 * product + 0.1)
        np.testing.assert_allclose(targets(data, n, 60)[:, 0], y, rtol=1e-5)


def test_narma_does_not_diverge():
    values = NARMA(length=2000, train_size=50).split("train", 1).targets.values
    assert np.abs(values).max() < 1
    assert values.mean() == pytest.approx(0.4, abs=0.05)


def test_memory_capacity_asks_for_the_past():
    data = MemoryCapacity(length=12, delays=4, train_size=2).split("train", 0)
    for n in range(2):
        x, y = data.inputs[n, :, 0], targets(data, n, 12)
        for t in range(12):
            assert y[t].tolist() == [x[t - k] if t >= k else 0 for k in range(1, 5)]
    many = MemoryCapacity(length=1000).split("train", 0).inputs
    assert many.var() == pytest.approx(1, abs=0.02)


def test_lorenz_is_the_solution_of_its_equation():
    """Up to the time where chaos has made rounding errors visible."""

    def rate(t, s):
        x, y, z = s
        return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]

    start = np.array([1.0, 2.0, 20.0])
    ours = lorenz(start[None], 0.02, 101, burn=0.0)[0]
    truth = scipy.integrate.solve_ivp(rate, (0, 2), start, t_eval=0.02 * np.arange(101), rtol=1e-10, atol=1e-10).y.T
    np.testing.assert_allclose(ours, truth, rtol=1e-3, atol=1e-3)


def test_lorenz_is_on_its_attractor():
    data = Lorenz(length=400, ahead=3, train_size=40).split("train", 0)
    flat = data.inputs.reshape(-1, 3)
    np.testing.assert_allclose(flat.std(0), DEVIATION, rtol=0.05)
    np.testing.assert_allclose(flat.mean(0), MEAN, atol=1.2)
    y = targets(data, 0, 400)
    np.testing.assert_allclose(y[:-3] * DEVIATION + MEAN, data.inputs[0, 3:], rtol=1e-4, atol=1e-4)
    noisy = Lorenz(length=400, noise=0.1, train_size=40)
    difference = noisy.split("train", 0).inputs - data.inputs
    np.testing.assert_allclose(difference.reshape(-1, 3).std(0), 0.1 * np.array(DEVIATION), rtol=0.05)
    assert noisy.floor(data) is None


def test_spike_patterns_without_noise_are_the_patterns():
    task = SpikePatterns(jitter=0.0, missing=0.0, noise=0.0, train_size=30)
    data = task.split("train", 0)
    for x, pattern in zip(data.inputs, data.targets, strict=True):
        np.testing.assert_array_equal(x[:50], task.templates()[pattern])
        assert not x[50:].any()


def test_spike_patterns_have_the_promised_noise():
    quiet, task = SpikePatterns(jitter=0.0, missing=0.25, noise=0.0), SpikePatterns(rate=1e-9, noise=0.03)
    data = quiet.split("train", 0)
    kept = data.inputs.sum() / quiet.templates()[data.targets].sum()
    assert kept == pytest.approx(0.75, abs=0.02)
    assert task.split("train", 0).inputs.mean() == pytest.approx(0.03, abs=0.002)
    moved = SpikePatterns(jitter=3.0, missing=0.0, noise=0.0, silent=30)
    assert moved.split("train", 0).inputs[:, 50:].any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NARMA(order=11), "order must be an integer of at least 1 and at most 10; got 11."),
        (lambda: NARMA(length=0), "length must be an integer of at least 1; got 0."),
        (lambda: MemoryCapacity(delays=0), "delays must be an integer of at least 1; got 0."),
        (lambda: Lorenz(interval=0.0), "interval must be a finite number above 0 and at most 0.2; got 0.0."),
        (lambda: Lorenz(ahead=0), "ahead must be an integer of at least 1; got 0."),
        (lambda: Lorenz(noise=-1.0), "noise must be a finite number at least 0; got -1.0."),
        (lambda: SpikePatterns(patterns=1), "patterns must be an integer of at least 2; got 1."),
        (lambda: SpikePatterns(rate=0.0), "rate must be a finite number above 0 and at most 1; got 0.0."),
        (lambda: SpikePatterns(missing=1.5), "missing must be a finite number at least 0 and at most 1; got 1.5."),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message
