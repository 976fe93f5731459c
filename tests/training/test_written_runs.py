"""Runs on tasks whose targets are sequences: training, resume, loading, evaluation."""

import pytest
import torch

import autapse
from autapse.checks import InputError
from autapse.models import EncoderDecoder, Padded
from autapse.tasks import Adding, Reverse
from autapse.training import ModelConfig, RunConfig, Trainer, TrainingConfig, TranslatorConfig, train
from autapse.training.feeds import Tensors
from small import final_tensors, rewrite, stopped_at

TASK = Reverse(length=4, symbols=3, train_size=64, validation_size=16, test_size=16)


def config(steps=6, **model):
    training = TrainingConfig(steps=steps, batch_size=8, eval_every=3)
    return RunConfig(task=TASK, model=TranslatorConfig(hidden_size=(8,), **model), training=training)


def test_targets_keep_their_own_lengths():
    data = Tensors.of(TASK.split("train", 0), "cpu")
    batch = data.take([3, 0])
    raw = TASK.split("train", 0)
    for row, length, n in zip(*batch.padded_targets, [3, 0], strict=True):
        assert row[:length].tolist() == raw.targets[n].tolist()
        assert (row[length:] == -100).all()


@pytest.mark.parametrize("feeding", ["teacher", "scheduled:end=1", "free:steps=2"])
def test_a_stopped_run_ends_with_the_same_bits(tmp_path, feeding):
    settings = config(6, feeding=feeding, output_dropout=0.2)
    train(settings, tmp_path / "whole")
    stopped_at(3, tmp_path / "cut", settings)
    Trainer.resume(tmp_path / "cut").train()
    one, other = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "model",
    [
        {"attention": "additive", "bidirectional": True, "condition": "none"},
        {"attention": "monotonic", "attend": "before", "cell": "lstm"},
        {"encoder": "implicitgru:cache=100", "attention": "multiplicative"},
        {"cell": "equilibriumtanh", "encoder": "lstm", "attention": "multiplicative", "attend": "before"},
    ],
    ids=["additive", "before", "solutions", "equilibrium"],
)
def test_a_stopped_run_with_attention_ends_with_the_same_bits(tmp_path, model):
    settings = config(6, **model)
    train(settings, tmp_path / "whole")
    stopped_at(3, tmp_path / "cut", settings)
    Trainer.resume(tmp_path / "cut").train()
    one, other = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert ("solutions" in " ".join(one)) == ("cache" in model.get("encoder", ""))


def test_a_network_of_ones_own_as_encoder_needs_trust(tmp_path):
    train(config(2), tmp_path / "run")
    rewrite(tmp_path / "run", lambda about, _: about["config"]["model"].update(encoder="some_module:Cell"))
    with pytest.raises(InputError, match="loading it would run the module some_module"):
        autapse.load(tmp_path / "run")


def test_a_config_cannot_ask_for_a_huge_encoder(tmp_path):
    train(config(2), tmp_path / "run")
    rewrite(tmp_path / "run", lambda about, _: about["config"]["model"].update(encoder_layers=10**9))
    with pytest.raises(InputError, match="it has no weights for 1000000000 layers"):
        autapse.load(tmp_path / "run")


def test_a_run_learns_and_its_model_translates(tmp_path):
    settings = TrainingConfig(steps=250, batch_size=32, eval_every=125, learning_rate=5e-3)
    task = Reverse(shortest=1, length=2, symbols=2, train_size=64, validation_size=16, test_size=32)
    summary = train(RunConfig(task=task, model=ModelConfig(hidden_size=(24,)), training=settings), tmp_path / "run")
    assert summary.test < 0.2 < summary.baseline
    model = autapse.load(tmp_path / "run")
    assert isinstance(model, EncoderDecoder)
    made = model.translate(torch.tensor([[[0], [1]], [[1], [0]]]), [2, 1])
    assert isinstance(made, Padded)
    assert model.classes == ("0", "1")


def test_settings_follow_the_kind_of_the_task():
    upgraded = RunConfig(task=TASK, model=ModelConfig(cell="lstm"))
    assert isinstance(upgraded.model, TranslatorConfig)
    assert RunConfig.from_json(upgraded.to_json()) == upgraded
    with pytest.raises(
        InputError, match="front must keep its default for reverse, which has no such setting; got 'conv'"
    ):
        RunConfig(task=TASK, model=ModelConfig(front="conv"))
    with pytest.raises(InputError, match="encoder must keep its default for adding"):
        RunConfig(task=Adding(), model=TranslatorConfig(encoder="lstm"))
    with pytest.raises(InputError, match="augment must be none for a task that writes sequences"):
        Trainer(RunConfig(task=TASK, training=TrainingConfig(augment="jitter")))
