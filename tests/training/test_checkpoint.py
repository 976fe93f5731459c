import hashlib
import json

import pytest
import torch

import autapse
from autapse import checks
from autapse.training import Trainer, train
from autapse.training.checkpoint import load_optimizer, read_run
from small import TASK, small_config


@pytest.fixture
def run(tmp_path):
    train(small_config(dropout=0.1), tmp_path / "run")
    return tmp_path / "run"


def test_load_from_folder_and_from_file_alone(run, tmp_path):
    x = torch.from_numpy(TASK.split("test", 0).inputs)
    from_folder = autapse.load(run)(x)
    (path,) = run.glob("checkpoint-*")
    alone = path.rename(tmp_path / "alone.safetensors")
    assert torch.equal(autapse.load(alone)(x), from_folder)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "rmsprop", "adagrad"])
def test_optimizer_state_survives(tmp_path, optimizer):
    config = small_config(steps=5, eval_every=5, optimizer=optimizer)
    (tmp_path / "run").mkdir()
    trainer = Trainer(config).start(tmp_path / "run")
    trainer.train()
    fresh = Trainer(config)
    load_optimizer(fresh.optimizer, fresh.model, read_run(tmp_path / "run").optimizer)
    for old, new in zip(trainer.parameters, fresh.parameters, strict=True):
        before, after = trainer.optimizer.state[old], fresh.optimizer.state[new]
        kept = {k for k, v in before.items() if v is not None}
        assert kept == after.keys()
        assert all(torch.equal(torch.as_tensor(before[k]), after[k]) for k in kept)


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "truncated":
        content = content[: len(content) // 2]
    elif how == "one bit":
        content[-1] ^= 1
    elif how == "no safetensors":
        content = b"something else entirely"
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["truncated", "one bit", "no safetensors"])
def test_a_damaged_checkpoint_is_told(run, how):
    (path,) = run.glob("checkpoint-*")
    damage(path, how)
    with pytest.raises(checks.InputError, match=r"checkpoint-30\.safetensors is damaged: its checksum"):
        autapse.load(run)


@pytest.mark.parametrize("how", ["truncated", "no safetensors"])
def test_a_damaged_file_is_told(run, how):
    (path,) = run.glob("checkpoint-*")
    damage(path, how)
    with pytest.raises(checks.InputError, match="is damaged, or is not a checkpoint of autapse"):
        autapse.load(path)


def test_missing_parts_are_told(run, tmp_path):
    with pytest.raises(checks.InputError, match=r"There is no run at .*rum\. Did you mean .*run"):
        autapse.load(tmp_path / "rum")
    (run / "state.json").write_text("{")
    with pytest.raises(checks.InputError, match=r"state\.json is damaged"):
        autapse.load(run)
    (run / "state.json").unlink()
    with pytest.raises(checks.InputError, match=r"state\.json is missing"):
        autapse.load(run)


def test_records_that_were_cut_are_told(run):
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(checks.InputError, match=r"metrics\.jsonl is damaged: it is shorter"):
        Trainer.resume(run)


def test_state_names_the_checkpoint_it_belongs_to(run):
    path = run / "checkpoint-30.safetensors"
    state = json.loads((run / "state.json").read_text())
    assert state == {"checkpoint": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    path.unlink()
    with pytest.raises(checks.InputError, match=r"checkpoint-30\.safetensors is missing"):
        autapse.load(run)
