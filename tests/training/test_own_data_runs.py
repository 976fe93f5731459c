"""Runs on people's own series: scaling, gaps, front end and readout from training to the trained model."""

import numpy as np
import pytest
import torch

import autapse
from autapse import checks
from autapse.tasks import ArrayTask
from autapse.training import ModelConfig, RunConfig, Trainer, TrainingConfig, load_run, train
from small import final_tensors, stopped_at

SETTINGS = {
    "hidden_size": (6,),
    "front": "conv:channels=5:kernels=5,3:pool=2,2",
    "readout": "mean-max",
    "readout_front": True,
    "output_norm": True,
    "output_dropout": 0.2,
}


def waves(count=48, gaps=False, scales=0.0, seed=0):
    """Slow and fast waves with noise, of any length and scale."""
    rng = np.random.default_rng(seed)
    series = []
    for n in range(count):
        t = np.arange(rng.integers(20, 40))
        wave = np.sin((0.2 if n % 2 else 0.9) * t + rng.uniform(0, 6))[:, None] + 0.3 * rng.normal(size=(len(t), 2))
        wave *= 10 ** rng.uniform(-scales, scales)
        if gaps:
            wave[rng.random(wave.shape) < 0.1] = np.nan
        series.append(wave)
    return series, ["slow" if n % 2 else "fast" for n in range(count)]


def config_of(task, steps=24, **model):
    training = TrainingConfig(steps=steps, batch_size=8, eval_every=8, learning_rate=0.01)
    return RunConfig(task=task, model=ModelConfig(**{**SETTINGS, **model}), training=training)


@pytest.mark.parametrize("options", [{"scaling": "series"}, {"missing": "mask", "differences": True}])
def test_a_stopped_run_ends_with_the_same_bits(tmp_path, options):
    task = ArrayTask(*waves(gaps="missing" in options), **options)
    train(config_of(task), tmp_path / "whole")
    stopped_at(11, tmp_path / "cut", config_of(task))
    Trainer.resume(tmp_path / "cut", task=task).train()
    whole, cut = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    assert any("running_mean" in name for name in whole)  # statistics of batches are saved too


@pytest.mark.parametrize("missing", ["mask", "forward", "mean"])
def test_a_trained_model_reads_what_training_read(tmp_path, missing):
    """The score of the run is that of the loaded model on raw arrays, in one call and step by step."""
    task = ArrayTask(*waves(gaps=True), missing=missing, scaling="robust")
    summary = train(config_of(task, streaming=True), tmp_path / "run")
    model = autapse.load(tmp_path / "run")
    test = task.split("test", seed=0)
    series = [test.inputs[n] for n in range(len(test))]
    labels = np.array(model.classes)[test.targets]
    assert model.classes == ("fast", "slow")
    assert np.mean(model.predict(series) != labels) == pytest.approx(summary.test)
    stream = model.stream()
    for row in series[0]:
        scores = stream(row)
    np.testing.assert_allclose(scores, model.predict_proba(series[0]), rtol=1e-4, atol=1e-5)


def test_series_that_differ_in_scale_by_orders_of_magnitude(tmp_path):
    """The default scaling learns them; one scale per channel cannot see the small ones."""
    data = waves(240, scales=4.0)
    errors = {}
    for scaling in ("auto", "channel"):
        task = ArrayTask(*data, scaling=scaling)
        errors[scaling] = train(config_of(task, steps=200), tmp_path / scaling).test
    assert errors["auto"] < 0.1
    assert errors["channel"] > 0.2
    _, _, signature = load_run(tmp_path / "auto")
    assert signature.level_mean != ()


def test_scaling_by_series_cannot_stream(tmp_path):
    task = ArrayTask(*waves(), scaling="series")
    with pytest.raises(checks.InputError, match="scaling must not need the whole series with streaming"):
        train(config_of(task, streaming=True), tmp_path / "run")


def test_names_of_channels_are_in_the_model(tmp_path):
    rows = ["sequence,left,right,target"]
    series, labels = waves(12)
    for n, (one, label) in enumerate(zip(series, labels, strict=True)):
        rows += [f"s{n},{a},{b},{label}" for a, b in one]
    (tmp_path / "my.csv").write_text("\n".join(rows) + "\n")
    task = autapse.tasks.OwnSeries(path=str(tmp_path / "my.csv"))
    train(config_of(task, steps=4), tmp_path / "run")
    model = autapse.load(tmp_path / "run")
    assert model.channels == ("left", "right")
    swapped = {"right": series[0][:, 1], "left": series[0][:, 0]}
    np.testing.assert_allclose(model.predict_proba(swapped), model.predict_proba(series[0]))
