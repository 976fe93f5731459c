"""The forecaster: layouts, forecasts against the true future, intervals, files and errors."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

import autapse
from autapse import checks
from autapse.sklearn import RecurrentForecaster

TIME = np.arange(260)
NOISE = np.random.default_rng(0).normal(size=(3, 260))
SERIES = np.stack([np.sin(TIME / 5 + phase) + 0.01 * TIME for phase in range(3)]) + 0.02 * NOISE
PAST, FUTURE = SERIES[:, :250], SERIES[:, 250:]
SMALL = {"horizon": 10, "window": 40, "hidden_size": 4, "steps": 10, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return RecurrentForecaster(**SMALL).fit(PAST)


def test_forecasts_are_near_the_true_future(fitted):
    forecast = fitted.predict(PAST)
    assert forecast.shape == (3, 10)
    assert np.abs(forecast - FUTURE).max() < 0.15  # the noise has a deviation of 0.02
    assert fitted.score(PAST, FUTURE) == pytest.approx(r2_score(FUTURE.reshape(-1), forecast.reshape(-1)))
    lower, upper = fitted.predict_interval(PAST, coverage=0.95)
    assert (lower < forecast).all()
    assert (forecast < upper).all()
    assert ((lower < FUTURE) & (upper > FUTURE)).mean() > 0.6
    assert fitted.predict(PAST, steps=17).shape == (3, 17)


def test_all_layouts_of_the_same_series_give_the_same_forecasts(fitted):
    expected = fitted.predict(PAST)
    for x, layout in ((PAST[:, None], "nct"), (list(PAST), "nct"), (PAST[..., None], "ntc"), (PAST.tolist(), "nct")):
        model = RecurrentForecaster(**SMALL, layout=layout).fit(x)
        assert np.array_equal(model.predict(x), expected)
    np.testing.assert_allclose(fitted.predict(PAST[1]), expected[1], atol=1e-6)  # one series, of any length
    np.testing.assert_allclose(fitted.predict(PAST[1, 50:].tolist()), expected[1], atol=1e-6)
    ragged = [PAST[0], PAST[1, 100:]]
    np.testing.assert_allclose(fitted.predict(ragged), expected[:2], atol=1e-6)


def test_channels_are_in_the_layout():
    both = np.stack([PAST, NOISE[:, :250]], axis=1)
    first = RecurrentForecaster(**SMALL).fit(both).predict(both)
    other = both.swapaxes(1, 2)
    assert first.shape == (3, 2, 10)
    second = RecurrentForecaster(**SMALL, layout="ntc").fit(other).predict(other)
    assert np.array_equal(first.swapaxes(1, 2), second)
    assert RecurrentForecaster(**SMALL, targets=[0]).fit(both).predict(both).shape == (3, 10)


@pytest.mark.parametrize("layout", ["nct", "ntc"])
def test_a_known_future_is_used(layout):
    """Noise cannot be forecast, unless a known channel has it."""
    series = np.stack([2 * NOISE, NOISE], axis=1)
    past, future = series[..., :250], series[:, 1:, 250:]
    if layout == "ntc":
        past, future = past.swapaxes(1, 2), future.swapaxes(1, 2)
    model = RecurrentForecaster(**SMALL, layout=layout, known=[1]).fit(past)
    np.testing.assert_allclose(model.predict(past, known=future), 2 * NOISE[:, 250:], atol=0.4)
    assert np.array_equal(model.predict(past, known=NOISE[:, 250:]), model.predict(past, known=list(future)))
    with pytest.raises(checks.InputError, match="known must have the next 10 steps"):
        model.predict(past)


def test_files_copies_and_random_states(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    expected = fitted.predict(PAST)
    assert np.array_equal(RecurrentForecaster.load(tmp_path / "model.safetensors").predict(PAST), expected)
    assert np.array_equal(autapse.load(tmp_path / "model.safetensors").forecast(PAST), expected)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(PAST), expected)
    assert np.array_equal(clone(fitted).fit(PAST).predict(PAST), expected)
    other = clone(fitted).set_params(random_state=1).fit(PAST)
    assert not np.array_equal(other.model_.layer.weight_hh_l0.numpy(force=True), fitted.model_.layer.weight_hh_l0)


@pytest.mark.parametrize(
    ("parameters", "x", "message"),
    [
        ({"horizon": 0}, PAST, "horizon must be an integer of at least 1; got 0"),
        ({"known": [1]}, PAST, "known must be an integer of at least 0 and at most 0; got 1"),
        (
            {},
            np.where(TIME[:250] == 9, np.nan, PAST),
            "X[0] must have no missing values before its end; got '1 NaN'. Fill",
        ),
        ({"layout": "tn"}, PAST, "layout must be one of nct, ntc"),
        ({"settings": {"optimiser": "sgd"}}, PAST, "Did you mean 'optimizer'?"),
    ],
)
def test_errors_are_one_clear_line(parameters, x, message):
    with pytest.raises(checks.InputError) as error:
        RecurrentForecaster(**{**SMALL, **parameters}).fit(x)
    assert message in str(error.value)


def test_errors_after_fit(fitted):
    with pytest.raises(checks.ShapeError, match="history must have at least 40 steps"):
        fitted.predict(PAST[:, :30])
    with pytest.raises(checks.ShapeError, match=r"y must have the shape of the forecasts, \(3, 10\); got \(3, 5\)"):
        fitted.score(PAST, FUTURE[:, :5])
    with pytest.raises(checks.ShapeError, match="X must have 1 channels, as in fit; got 2"):
        fitted.predict(np.stack([PAST, PAST], axis=1))
