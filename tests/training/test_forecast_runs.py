"""Runs that forecast: as good as least squares, no leak, resume to the bit, honest errors and coverage."""

import json

import numpy as np
import pytest
import torch

import autapse
from autapse.checks import InputError
from autapse.tasks import ForecastArrays
from autapse.training import (
    Interrupted,
    Trainer,
    fit,
    forecast_config,
    forecast_errors,
    forecast_report,
    load_run,
    train,
)
from autapse.training.config import RunConfig

SMALL = {"steps": 20, "eval_every": 10, "batch_size": 16}
TINY = {"hidden_size": (4,)}


def noisy_sine(seed, steps=400):
    """A sine of amplitude 1 with a season of 24 steps, a slow trend, and noise with variance 0.01."""
    time = np.arange(steps)
    noise = np.random.default_rng(seed).normal(size=steps)
    return np.sin(2 * np.pi * time / 24) + 0.005 * time + 0.1 * noise


def test_forecasts_of_a_noisy_sine_are_better_than_least_squares():
    """Nobody can forecast the noise, so 0.01 is the best possible error in the mean."""
    errors = []
    for seed in range(3):
        task = ForecastArrays(noisy_sine(seed, 600), horizon=12)
        model = fit(forecast_config(task, training={"seed": seed, "steps": 100})).model
        report = forecast_report(model, task)
        errors.append([report.errors[name]["mse"] for name in ("model", "least squares", "last season")])
    mine, line, trivial = np.mean(errors, axis=0)
    assert 0.005 < mine <= line < trivial
    assert mine < 0.016


def test_a_network_learns_what_a_straight_line_cannot():
    """x' = 4·x·(1 − x): the next value is a parabola of the last one, which no straight line through it follows."""
    x = [0.3]
    for _ in range(700):
        x.append(4 * x[-1] * (1 - x[-1]))
    task = ForecastArrays(np.array(x), horizon=1, window=4, season=1)
    report = forecast_report(fit(forecast_config(task, training={"steps": 600})).model, task)
    assert report.errors["model"]["mse"] < 0.25 * report.errors["least squares"]["mse"]


@pytest.mark.parametrize("options", [{}, {"intervals": "gaussian"}, {"intervals": "none"}, {"method": "recursive"}])
def test_training_does_not_see_the_test_part(options):
    series = noisy_sine(0)
    task = ForecastArrays(series, horizon=3, window=10, **options)
    changed = series.copy()
    changed[task.plans[0].ends["validation"] :] = 77.0
    other = ForecastArrays(changed, horizon=3, window=10, **options)
    one, two = (fit(forecast_config(each, model=TINY, training=SMALL)).model for each in (task, other))
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name
    assert (
        one(torch.zeros(2, 10, 1)).shape[-1] == {"gaussian": 2, "none": 1}.get(options.get("intervals"), 5) or options
    )


def test_a_forecast_from_the_origin_is_the_forecast_of_the_test_window():
    """What is scored is what `forecast` gives for the series that ends at the origin."""
    series = np.stack([noisy_sine(0), noisy_sine(1), np.arange(400) % 5], axis=1)
    task = ForecastArrays(series, channels=["a", "k", "b"], horizon=3, window=10, known="k")
    model = fit(forecast_config(task, model=TINY, training=SMALL)).model
    part = task.part("test")
    scored = model.predict(torch.from_numpy(part.windows.array())).numpy()
    for n in (0, 20, len(scored) - 1):
        origin = part.origins[n]
        known = series[origin + 1 : origin + 4, 1]
        np.testing.assert_allclose(model.forecast(series[: origin + 1], known), scored[n], rtol=1e-5, atol=1e-5)


def test_many_series_of_different_scale_count_the_same():
    rng, time = np.random.default_rng(0), np.arange(150)
    shapes = [np.sin(2 * np.pi * (time + rng.integers(12)) / 12) + 0.1 * rng.normal(size=150) for _ in range(6)]
    scales = 10.0 ** np.arange(-2, 4)
    task = ForecastArrays([scale * (5 + one) for scale, one in zip(scales, shapes, strict=True)], horizon=4)
    assert task.shape.season == 12
    model = fit(forecast_config(task, model=TINY, training=SMALL)).model
    part = task.part("test")
    values = model.predict(torch.from_numpy(part.windows.array())).numpy()
    for n, scale in enumerate(scales):
        own = part.series == n
        error = np.square(values[own] - part.targets[own]).mean() / scale**2
        assert error < 0.05  # the noise has 0.01, the sine 0.5
    report = forecast_report(model, task)
    assert report.errors["model"]["mase"] < report.errors["last season"]["mase"] < report.errors["last value"]["mase"]


def test_errors_by_hand():
    series = np.array([0.0, 2.0, 1.0, 5.0] * 30)
    task = ForecastArrays([series, 10 * series], horizon=2, window=4, season=2)
    part = task.part("test")
    made = part.targets + np.where(part.series == 0, 1.0, -30.0)[:, None, None]
    errors = forecast_errors(task, "test", made)
    assert errors.mse == pytest.approx((1 + 900) / 2)
    assert errors.mae == pytest.approx((1 + 30) / 2)
    units = [np.abs(one[2:77] - one[:75]).mean() for one in (series, 10 * series)]  # 77 steps for training
    assert task.plans[0].ends["train"] == 77
    assert errors.mase == pytest.approx((1 / units[0] + 30 / units[1]) / 2, rel=1e-6)
    with pytest.raises(InputError, match="values must have shape"):
        forecast_errors(task, "test", made[:3])


@pytest.mark.parametrize("options", [{}, {"intervals": "gaussian"}, {"method": "recursive"}])
def test_intervals_cover_what_they_promise(options):
    """White noise: the best interval is known, and every method must find it."""
    noise = np.random.default_rng(0).normal(size=4000)
    task = ForecastArrays(noise, horizon=2, window=5, season=1, **options)
    model = fit(forecast_config(task, model=TINY, training={"steps": 200})).model
    report = forecast_report(model, task)
    assert report.coverage["0.8"] == pytest.approx(0.8, abs=0.07)
    assert report.coverage["0.95"] == pytest.approx(0.95, abs=0.05)
    assert report.errors["model"]["mse"] == pytest.approx(1.0, abs=0.15)


def test_the_straight_line_is_kept_if_training_makes_it_worse():
    """With a huge learning rate the first weights are the best ones."""
    task = ForecastArrays(noisy_sine(0), horizon=3)
    fitted = fit(forecast_config(task, model=TINY, training={**SMALL, "learning_rate": 10.0}))
    assert fitted.progress.best_step == 0
    start = fit(forecast_config(task, model=TINY, training={"steps": 1, "learning_rate": 1e-12}))
    x = torch.from_numpy(task.part("test").windows.array())
    np.testing.assert_allclose(fitted.model.predict(x).numpy(), start.model.predict(x).numpy(), rtol=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "implicitgru"])
def test_a_run_resumes_to_the_bit_and_is_loaded_without_its_data(tmp_path, cell):
    task = ForecastArrays(noisy_sine(0), horizon=3, window=10)
    config = forecast_config(task, model={**TINY, "cell": cell}, training=SMALL)
    whole = train(config, tmp_path / "whole")
    folder = tmp_path / "cut"
    folder.mkdir()
    trainer = Trainer(config).start(folder)
    between = trainer._between_steps

    def interrupted():
        if trainer.progress.step == 12:
            trainer.signals = [2]
        between()

    trainer._between_steps = interrupted
    with pytest.raises(Interrupted):
        trainer.train()
    assert Trainer.resume(folder, task=task).train().test == whole.test
    one, two = (autapse.load(tmp_path / name).state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    model, loaded, signature = load_run(folder)
    assert RunConfig.from_json(json.loads(json.dumps(loaded.to_json()))) == loaded
    assert signature.forecast == task.shape
    assert model.forecast(noisy_sine(1)).shape == (3,)


def test_a_final_model_uses_all_steps(tmp_path):
    task = ForecastArrays(noisy_sine(0), horizon=3, window=10, validation=0.0, test_share=0.0)
    summary = train(forecast_config(task, model=TINY, training={"steps": 5}), tmp_path / "run")
    assert summary.test is None
    model = autapse.load(tmp_path / "run")
    assert np.isfinite(model.forecast(noisy_sine(0), intervals=0.8).upper).all()
    with pytest.raises(InputError, match="There are no test data to score"):
        forecast_report(model, task)
