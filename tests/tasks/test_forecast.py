"""Forecasting: windows in the order of time, splits in time, no leak of the future, simple predictors, seasons."""

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.tasks import SPLITS, Forecast, ForecastArrays
from autapse.tasks.forecast_baselines import StraightLine, naive, scaled_error_unit, seasonal_naive
from autapse.tasks.season import find_season
from autapse.tasks.windows import MOST, TimeSplit, thinned

SERIES = np.sin(np.arange(150) / 5) + np.arange(150) / 50


def walks(count, steps=120, seed=0):
    return list(np.random.default_rng(seed).normal(size=(count, steps)).cumsum(1))


# The split in time --------------------------------------------------------------------------------------------------


def test_windows_and_targets_are_consecutive_steps_of_the_series():
    task = ForecastArrays(SERIES, horizon=4, window=10)
    for split in SPLITS:
        part = task.part(split)
        windows = part.windows.array()
        assert len(windows) > 5
        for window, target, origin in zip(windows, part.targets, part.origins, strict=True):
            np.testing.assert_array_equal(window[:, 0], SERIES[origin - 9 : origin + 1].astype(np.float32))
            np.testing.assert_array_equal(target[:, 0], SERIES[origin + 1 : origin + 5].astype(np.float32))


def test_no_step_is_forecast_in_two_splits_and_the_splits_follow_one_another():
    task = ForecastArrays(walks(3), horizon=4, window=10)
    for series in range(3):
        steps = []
        for split in SPLITS:
            part = task.part(split)
            origins = part.origins[part.series == series]
            assert (np.diff(origins) == 1).all()
            steps.append({int(o + ahead) for o in origins for ahead in range(1, 5)})
        assert max(steps[0]) < min(steps[1]) <= max(steps[1]) < min(steps[2])
        assert max(steps[2]) == 119  # the last step is used


def test_shares_are_shares_of_the_steps():
    plan = TimeSplit(1000, window=10, horizon=5, validation=0.25, test=0.2)
    assert plan.ends == {"train": 600, "validation": 800, "test": 1000}
    assert TimeSplit(1000, 10, 5, 0.0, 0.0).ends == {"train": 1000, "validation": 1000, "test": 1000}
    task = ForecastArrays(SERIES, horizon=4, window=10, validation=0.0, test_share=0.0)
    assert [len(task.split(split, 0)) for split in SPLITS] == [150 - 10 - 4 + 1, 0, 0]


def test_very_many_windows_are_thinned_evenly():
    assert np.diff(thinned(np.arange(10_001), 2_000)).tolist() == [6] * 1666
    task = ForecastArrays(np.arange(30_000) % 7, horizon=1, window=2)
    assert len(task.split("validation", 0)) <= MOST["validation"]


def test_small_series_have_small_typical_errors_beside_large_ones():
    scales = 10.0 ** np.arange(-2, 4)
    task = ForecastArrays(
        [scale * (5 + one) for scale, one in zip(scales, walks(6), strict=True)], horizon=4, window=10
    )
    part = task.part("train")
    for n, unit in enumerate(task.error_units[:, 0]):
        windows, targets = (rows[part.series == n] for rows in (part.windows.array(), part.targets))
        assert unit <= 1.001 * np.sqrt(np.square(targets[..., 0] - windows[:, -1]).mean())  # of the last value


# No leak of the future ----------------------------------------------------------------------------------------------


def constants(task):
    """Everything that is computed for the training."""
    return task.signature(), task.error_units, task.scaled_error_units, task.straight_line.weight


@pytest.mark.parametrize("several", [False, True])
def test_no_constant_of_the_training_depends_on_later_values(several):
    series = walks(3) if several else [SERIES]
    task = ForecastArrays(series, horizon=4)
    ends = [plan.ends for plan in task.plans]
    changed = [one.copy() for one in series]
    for one, end in zip(changed, ends, strict=True):
        one[end["train"] :] = 1e3 * np.random.default_rng(1).normal(size=len(one) - end["train"])
    other = ForecastArrays(changed, horizon=4)
    for mine, its in zip(constants(task), constants(other), strict=True):
        np.testing.assert_equal(mine, its)
    mine, its = task.split("train", 0), other.split("train", 0)
    np.testing.assert_array_equal(mine.inputs.array(), its.inputs.array())
    np.testing.assert_array_equal(mine.targets, its.targets)
    assert not np.array_equal(task.part("test").targets, other.part("test").targets)


@pytest.mark.parametrize("split", SPLITS)
def test_no_input_depends_on_values_after_the_origin(split):
    task = ForecastArrays(SERIES, horizon=4, window=10, season=1)
    part = task.part(split)
    for n in (0, len(part.windows) // 2, len(part.windows) - 1):
        changed = SERIES.copy()
        changed[part.origins[n] + 1 :] += 100.0
        other = ForecastArrays(changed, horizon=4, window=10, season=1).part(split)
        np.testing.assert_array_equal(part.windows[n], other.windows[n])
        assert not np.array_equal(part.targets[n], other.targets[n])


def test_a_split_holds_no_values_after_its_last_origin():
    task = ForecastArrays(SERIES, horizon=4, window=10)
    for split in SPLITS:
        data = task.split(split, 0)
        assert data.inputs.values[-1, 0] == np.float32(SERIES[task.part(split).origins[-1]])


def test_the_future_of_known_columns_is_read_and_no_other():
    values = np.stack([SERIES, np.arange(150.0), -np.arange(150.0)], axis=1)
    options = {"horizon": 4, "window": 10, "season": 1, "target_column": "y", "known": "k"}
    task = ForecastArrays(values, channels=["y", "k", "other"], **options)
    assert (task.shape.targets, task.shape.others, task.shape.known) == (("y",), ("other",), ("k",))
    part = task.part("test")
    window, origin = part.windows[3], part.origins[3]
    assert window[-1].tolist() == pytest.approx([SERIES[origin], -origin, origin, origin + 4])
    for column, seen in (("y", False), ("k", True), ("other", False)):
        changed = values.copy()
        changed[origin + 1 :, ["y", "k", "other"].index(column)] += 100.0
        other = ForecastArrays(changed, channels=["y", "k", "other"], **options).part("test")
        assert np.array_equal(window, other.windows[3]) is not seen


# Simple predictors ---------------------------------------------------------------------------------------------------


def test_naive_and_seasonal_naive_by_hand():
    windows = np.arange(12.0).reshape(1, 6, 2)
    assert naive(windows, 3, 1).tolist() == [[[10.0]] * 3]
    assert seasonal_naive(windows, 5, 1, season=4)[0, :, 0].tolist() == [4.0, 6.0, 8.0, 10.0, 4.0]
    assert seasonal_naive(windows, 2, 2, season=1).tolist() == [[[10.0, 11.0]] * 2]


def test_the_unit_of_mase_by_hand():
    series = np.array([[1.0, 5.0], [4.0, 5.0], [2.0, 5.0], [8.0, 5.0]])
    assert scaled_error_unit(series, 1).tolist() == pytest.approx([(3 + 2 + 6) / 3, 1.0])  # a constant has unit 1
    assert scaled_error_unit(series, 2)[0] == pytest.approx((1 + 4) / 2)


def test_least_squares_is_that_of_numpy():
    rng = np.random.default_rng(0)
    windows, targets = rng.normal(3.0, 2.0, (80, 5, 2)), rng.normal(size=(80, 3, 1))
    matrix = np.concatenate([windows.reshape(80, -1), np.ones((80, 1))], axis=1)
    weight, *_ = np.linalg.lstsq(matrix, targets.reshape(80, -1), rcond=None)
    line = StraightLine(windows, targets)
    np.testing.assert_allclose(line.predict(windows)[..., 0], matrix @ weight, atol=1e-9)


def test_least_squares_of_dependent_columns_is_finite():
    windows = np.repeat(np.random.default_rng(0).normal(size=(30, 4, 1)), 2, axis=2)  # every column twice
    line = StraightLine(windows, windows[:, :1, :1] * 3.0)
    np.testing.assert_allclose(line.predict(windows), windows[:, :1, :1] * 3.0, atol=1e-3)


def test_least_squares_finds_the_best_predictor_of_an_autoregression():
    """x_t = φ·x_{t−1} + e: the best forecast is φ^h·x, with the error (1 − φ^2h) / (1 − φ²)."""
    rng, phi = np.random.default_rng(0), 0.8
    x = np.zeros(40_000)
    for t in range(1, len(x)):
        x[t] = phi * x[t - 1] + rng.normal()
    task = ForecastArrays(x, horizon=3, window=2, season=1)
    part = task.part("test")
    windows = part.windows.array()
    best = windows[:, -1:, :] * phi ** np.arange(1, 4)[None, :, None]
    np.testing.assert_allclose(task.baselines("test")["least squares"], best, atol=0.15)
    error = np.square(task.baselines("test")["least squares"] - part.targets).mean(axis=(0, 2))
    np.testing.assert_allclose(error, (1 - phi ** (2 * np.arange(1, 4))) / (1 - phi**2), rtol=0.1)


# Seasons and windows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("season", [4, 7, 12, 24])
@pytest.mark.parametrize("disturbance", ["noise", "trend", "shifts"])
def test_a_season_is_found(season, disturbance):
    rng, time = np.random.default_rng(season), np.arange(400)
    series = np.sin(2 * np.pi * time / season) + 0.1 * rng.normal(size=400)
    if disturbance == "trend":
        series += 0.05 * time
    if disturbance == "shifts":
        series += 10.0 * (time > 130) - 7.0 * (time > 300)
    assert find_season([series]) == season


@pytest.mark.parametrize("steps", [60, 300])
def test_noise_and_random_walks_have_no_season(steps):
    noise = np.random.default_rng(0).normal(size=(20, steps))
    found = [find_season([one]) for one in (*noise, *noise.cumsum(1))]
    assert sum(season > 1 for season in found) <= 5  # of 40
    assert find_season([np.arange(100.0)]) == find_season([np.ones(100)]) == find_season([np.ones(2)]) == 1


def test_the_season_comes_from_the_training_part_and_can_be_given():
    time = np.arange(400)
    series = np.where(time < 250, np.sin(2 * np.pi * time / 10), np.sin(2 * np.pi * time / 16))
    assert ForecastArrays(series, horizon=4).shape.season == 10
    assert ForecastArrays(series, horizon=4, season=16).shape.season == 16
    assert ForecastArrays(series, horizon=4).shape.window == 24
    assert ForecastArrays(series, horizon=20).shape.window == 40


def test_the_trivial_score_is_that_of_the_last_season():
    time = np.arange(200)
    task = ForecastArrays((time % 5).astype(float), horizon=7)
    assert task.shape.season == 5
    assert task.baseline(task.split("test", 0)) == 0.0


# Files and errors -----------------------------------------------------------------------------------------------------


def test_one_long_file_and_a_file_of_many_series_in_any_order(tmp_path):
    one = tmp_path / "one.csv"
    one.write_text("time,y,target\n" + "".join(f"{t},{t * t},{-t}\n" for t in reversed(range(50))))
    task = Forecast(path=str(one), horizon=2, window=3)
    assert task.shape.targets == ("y", "target")  # no column is special
    assert task.history().values.values[:, 0].tolist() == [t * t for t in range(50)]
    many = tmp_path / "many.csv"
    rows = [f"{n},{t},{100 * n + t}" for t in range(40) for n in (1, 2)]
    many.write_text("shop,day,sales\n" + "\n".join(rows) + "\n")
    task = Forecast(path=str(many), horizon=2, sequence_column="shop", time_column="day")
    assert task.history().names == ("1", "2")
    assert task.shape.targets == ("sales",)
    assert task.history().values.lengths.tolist() == [40, 40]


def test_rows_after_the_end_with_known_values_alone_are_not_part_of_the_series(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("y,k\n" + "".join(f"{t},{t % 3}\n" for t in range(60)) + ",1\n,2\n")
    assert Forecast(path=str(path), horizon=2, known=("k",)).history().values.lengths.tolist() == [60]


OPTIONS = [
    ({"horizon": 0}, "horizon must be an integer of at least 1; got 0."),
    ({"horizon": 2.5}, "horizon must be an integer of at least 1; got 2.5."),
    ({"window": 0}, "window must be an integer of at least 1; got 0."),
    ({"season": 0}, "season must be an integer of at least 1; got 0."),
    ({"method": "direct"}, "method must be one of one-shot, recursive; got 'direct'."),
    ({"intervals": "gauss"}, "intervals must be one of quantile, gaussian, none; got 'gauss'."),
    ({"levels": (0.8, 1.0)}, "levels must be shares above 0 and below 1; got (0.8, 1.0)."),
    ({"validation": 1.0}, "validation must be a finite number at least 0 and at most 0.9; got 1.0."),
    ({"known": ("a",), "target_column": ("a",)}, "known must not have a column to forecast; got 'a'."),
    ({"target_column": ("a", "a")}, "target_column must be different names of columns; got ('a', 'a')."),
    ({"colour": 1}, "option must be one of"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError) as error:
        ForecastArrays(SERIES, **{"horizon": 3, **options})
    assert str(error.value).startswith(message)


TWO = np.stack([SERIES, SERIES], axis=1)
DATA = [
    (SERIES[:20], {"window": 12}, "the series must have at least window + horizon = 12 + 3 = 15 steps for training;"),
    ([SERIES, SERIES[:9]], {"window": 12}, "series '1' must have at least window + horizon"),
    (TWO, {"target_column": ("b",)}, "target_column must be among the columns x1, x2; got 'b'."),
    (TWO, {"known": ("x3",)}, "known must be among the columns x1, x2; got 'x3'."),
    (TWO, {"known": ("x1", "x2")}, "known must leave a column to forecast"),
    (TWO, {"known": ("x2",), "window": 2}, "window must be at least the horizon, 3, with known columns; got 2."),
    (TWO, {"target_column": ("x1",), "method": "recursive"}, "method must be one-shot, since 'x2' is neither"),
    (SERIES, {"window": 5, "season": 6}, "window must be at least the season, 6; got 5."),
    (np.where(SERIES > 2, np.nan, SERIES), {}, "series, step 67 must have finite values only; got nan."),
    ([SERIES, TWO], {}, "series must have the same number of channels each; got [1, 2]."),
    (SERIES.reshape(1, 1, -1), {}, "series must have shape [T] or [T, D]"),
    (np.array(["a", "b"]), {}, "series must have numbers"),
]


@pytest.mark.parametrize(("series", "options", "message"), DATA)
def test_data_that_cannot_be_forecast_are_named(series, options, message):
    with pytest.raises(InputError) as error:
        ForecastArrays(series, horizon=3, **options).split("train", 0)
    assert str(error.value).startswith(message)


FILES = [
    ("time,y\n1,2\n2,\n3,4\n", "step 2, column 'y': a value is missing. Forecasts need every value"),
    ("time,y\n1,2\n1,3\n2,4\n", "there twice"),
    ("time,y\n1,2\n2,x\n3,4\n", "is not a"),
    ("y\n" + "1\n" * 5, "the series must have at least window + horizon"),
]


@pytest.mark.parametrize(("content", "message"), FILES)
def test_files_that_cannot_be_forecast_are_named(tmp_path, content, message):
    (tmp_path / "my.csv").write_text(content)
    with pytest.raises(InputError, match=message.replace("+", r"\+")):
        Forecast(path=str(tmp_path / "my.csv"), horizon=3).split("train", 0)
