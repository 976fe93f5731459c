"""The posterior of the biased walk against SciPy's special functions, Bayes' rule written out, and known limits."""

import math

import numpy as np
import pytest
from scipy import integrate, special

from autapse.tasks import IGNORE, Walk
from autapse.tasks.change_point import _log_average_uniform, _log_average_unit, drift_posterior


def log_uniform(S: float, Q: float) -> float:
    """The log of ∫ exp(v·S − ½v²Q) dv over [0, 1], by the normal distribution function; v → 1 − v if S > Q."""
    if S > Q:
        return S - Q / 2 + log_uniform(Q - S, Q)
    a, c = math.sqrt(Q), S / math.sqrt(Q)
    if c > 0:
        inside = math.log(special.ndtr(a - c) - special.ndtr(-c))
    else:
        upper, lower = special.log_ndtr(c), special.log_ndtr(c - a)
        inside = upper + math.log1p(-math.exp(lower - upper))
    return inside + c**2 / 2 + math.log(2 * math.pi) / 2 - math.log(a)


def log_unit(pull: float, d: int) -> float:
    """The log of the mean of exp(v·S) over the unit sphere, |S| = pull, by the Bessel function I_{d/2 − 1}."""
    order = d / 2 - 1
    return special.gammaln(d / 2) + order * math.log(2 / pull) + math.log(special.ive(order, pull)) + pull


@pytest.mark.parametrize("a", [0.1, 1.0, 4.0, 15.0, 200.0])
@pytest.mark.parametrize("c", [-30.0, -5.0, -0.5, 0.0, 0.5, 3.0, 30.0])
def test_uniform_average_is_scipys(a, c):
    for S in (c * a, c * a + a**2 / 2, c * a + a**2):  # the peak at 0, in the middle and at 1, and c deviations off
        found = _log_average_uniform(np.array([S, S]), np.array(a**2))
        assert found == pytest.approx(2 * log_uniform(S, a**2), rel=1e-6, abs=1e-6)


def test_uniform_average_is_the_integral():
    for S, Q in [(0.3, 0.7), (-2.0, 1.0), (9.0, 4.0), (5.0, 30.0)]:
        integral, _ = integrate.quad(lambda v, S=S, Q=Q: math.exp(v * S - v * v * Q / 2), 0, 1)
        assert _log_average_uniform(np.array([S]), np.array(Q)) == pytest.approx(math.log(integral), abs=1e-9)


@pytest.mark.parametrize("d", [2, 3, 4, 8, 30])
@pytest.mark.parametrize("pull", [1e-3, 0.3, 2.0, 20.0, 300.0, 5000.0])
def test_unit_average_is_scipys(d, pull):
    S = np.random.default_rng(0).standard_normal(d)
    S *= pull / np.linalg.norm(S)
    assert _log_average_unit(S, np.array(3.0)) == pytest.approx(log_unit(pull, d) - 1.5, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("S", [-2.0, 0.5])
def test_unit_average_in_one_dimension_is_the_mean_over_both_signs(S):
    assert _log_average_unit(np.array([S]), np.array(1.0)) == pytest.approx(math.log(math.cosh(S)) - 0.5)


@pytest.mark.parametrize("average", [_log_average_uniform, _log_average_unit])
def test_average_without_observations_is_one(average):
    assert average(np.zeros(8), np.array(0.0)) == pytest.approx(0, abs=1e-12)


def posterior_written_out(walk: np.ndarray, bias: float, direction: str, grid: int) -> np.ndarray:
    """P(t0 < t | walk) from the definitions, t0 on a fine grid of midpoints."""
    N, d = len(walk) - 1, walk.shape[1]
    times = (np.arange(N * grid) + 0.5) / grid
    likelihood = np.zeros(len(times))
    for i, t0 in enumerate(times):
        S, Q = np.zeros(d), 0.0
        for t in range(1, N + 1):
            weight = min(max(t - t0, 0), 1)
            S += weight * (walk[t] - walk[t - 1])
            Q += weight**2
        if Q == 0:
            likelihood[i] = 1
        elif direction == "uniform":
            likelihood[i] = math.exp(sum(log_uniform(bias * s, bias**2 * Q) for s in S))
        else:
            likelihood[i] = math.exp(log_unit(bias * np.linalg.norm(S), d) - bias**2 * Q / 2)
    return np.array([likelihood[times < t].sum() for t in range(N + 1)]) / likelihood.sum()


@pytest.mark.parametrize(("bias", "dimensions"), [(0.5, 8), (2.0, 3)])
@pytest.mark.parametrize("direction", ["uniform", "unit"])
def test_posterior_is_bayes_rule(direction, bias, dimensions):
    task = Walk(bias=bias, direction=direction, dimensions=dimensions, max_length=9, test_size=12)
    data = task.split("test", seed=0)
    found = drift_posterior(data, bias, direction)
    for row, walk, length in zip(found, data.inputs.astype(float), data.lengths, strict=True):
        truth = posterior_written_out(walk[:length], bias, direction, grid=100)
        np.testing.assert_allclose(row[:length], truth, atol=2e-4)  # the grid's own error


def test_posterior_without_bias_is_the_prior():
    data = Walk(test_size=50).split("test", seed=0)
    for row, length in zip(drift_posterior(data, 1e-7, "uniform"), data.lengths, strict=True):
        np.testing.assert_allclose(row[:length], np.arange(length) / (length - 1), atol=1e-5)


def test_lengths_may_be_left_out_where_every_walk_is_whole():
    data = Walk(max_length=7, test_size=300).split("test", seed=0)
    whole = data.lengths == 8
    found = drift_posterior(type(data)(data.inputs[whole], data.targets[whole]), 0.5, "uniform")
    np.testing.assert_array_equal(found, drift_posterior(data, 0.5, "uniform")[whole])


@pytest.mark.parametrize(("bias", "direction"), [(0.5, "uniform"), (5.0, "uniform"), (0.5, "unit")])
def test_posterior_is_calibrated(bias, direction):
    """Bayes' predictor expects of itself the error that it makes: true only if posterior and generator agree."""
    task = Walk(bias=bias, direction=direction, test_size=400)
    data = task.split("test", seed=0)
    probability, valid = drift_posterior(data, bias, direction), data.targets != IGNORE
    expected = np.where(valid, np.minimum(probability, 1 - probability), 0).sum(axis=1)
    made = (((probability > 0.5) != data.targets) & valid).sum(axis=1)
    difference = made - expected
    assert abs(difference.mean()) < 4 * difference.std() / math.sqrt(400)
    assert task.floor(data) == pytest.approx(made.sum() / valid.sum())
