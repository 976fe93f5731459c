"""clip_hidden, information_flow and random_above in a training: they act, and runs resume to the bit."""

import pytest
import torch

from autapse import checks
from autapse.tasks import Adding
from autapse.training import ModelConfig, RunConfig, Trainer, TrainingConfig, train
from autapse.training.log import read_metrics
from small import final_tensors, small_config, stopped_at

SETTINGS = {"clip_hidden": 1e-3, "information_flow": 0.5, "random_above": 0.5}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_changes_the_training_and_resumes_to_the_bit(tmp_path, name):
    config = small_config(dropout=0.3, **{name: SETTINGS[name]})
    train(small_config(dropout=0.3), tmp_path / "plain")
    train(config, tmp_path / "whole")
    stopped_at(13, tmp_path / "cut", config)
    Trainer.resume(tmp_path / "cut").train()
    plain, whole, cut = (final_tensors(tmp_path / folder) for folder in ("plain", "whole", "cut"))
    assert not torch.equal(plain["model.head.weight"], whole["model.head.weight"])
    assert all(torch.equal(whole[tensor], cut[tensor]) for tensor in whole)


def test_random_steps_are_recorded(tmp_path):
    """Above the threshold, the weights move by rate·clip_norm whatever the gradient is."""
    config = small_config(random_above=1e-9, clip_norm=0.5, learning_rate=0.1, optimizer="sgd", steps=1, eval_every=1)
    before = [p.detach().clone() for p in Trainer(config).model.parameters()]
    train(config, tmp_path / "run")
    after = final_tensors(tmp_path / "run")
    names = [name for name, _ in Trainer(config).model.named_parameters()]
    moved = torch.cat([(after[f"model.{n}"] - b).flatten() for n, b in zip(names, before, strict=True)])
    assert float(moved.norm()) == pytest.approx(0.05, rel=1e-5)
    events = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if "event" in r]
    assert events == [{"event": "random step", "step": 0}]


def test_a_short_gradient_takes_its_own_step(tmp_path):
    for name, settings in {"a": {}, "b": {"random_above": 1e9}}.items():
        train(small_config(**settings), tmp_path / name)
    a, b = (final_tensors(tmp_path / name) for name in "ab")
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clip_hidden": 0.0}, "clip_hidden must be a finite number above 0"),
        ({"information_flow": -1.0}, "information_flow must be a finite number at least 0"),
        ({"random_above": -1.0}, "random_above must be a finite number above 0"),
        ({"random_above": 1.0, "clip_norm": None}, "clip_norm must be set with random_above"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(checks.InputError, match=words):
        TrainingConfig(**settings)


@pytest.mark.parametrize(
    ("cell", "settings", "words"),
    [
        ("implicitgru", {"clip_hidden": 1.0}, "clip_hidden must not be set for ImplicitGRU"),
        ("equilibriumtanh", {"information_flow": 0.1}, "information_flow must be 0 for EquilibriumTanh"),
        ("feedforward", {"information_flow": 0.1}, "information_flow must not be set for Feedforward"),
    ],
)
def test_networks_without_it(cell, settings, words):
    config = RunConfig(
        task=Adding(length=5, train_size=20, validation_size=5, test_size=5),
        model=ModelConfig(cell=cell, hidden_size=(4,)),
        training=TrainingConfig(batch_size=4, **settings),
    )
    with pytest.raises(checks.InputError, match=words):
        Trainer(config)
