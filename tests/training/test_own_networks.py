"""Cells and tasks of one's own: trained, saved, and loaded only where their module is trusted."""

import sys

import numpy as np
import pytest
import torch

import autapse
from autapse import checks, files
from autapse.tasks import ArrayTask, Digits, task_class
from autapse.training import ModelConfig, RunConfig, Trainer, TrainingConfig, train
from own_cells import NAME, write_module, write_package
from small import TASK, small_config

SETTINGS = {"steps": 20, "batch_size": 16, "eval_every": 10}


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a module of one's own is
    yield write_module(tmp_path)
    sys.modules.pop(NAME, None)


def config_of(cell) -> RunConfig:
    return RunConfig(task=TASK, model=ModelConfig(cell=cell, hidden_size=(4,)), training=TrainingConfig(**SETTINGS))


@pytest.mark.parametrize("form", ["{}", "deep:cell=({}):output_depth=1"])
def test_a_run_with_a_cell_of_ones_own_is_loaded_with_trust_only(module, tmp_path, form):
    spec = form.format(f"{module}:Mean:weight=0.25")
    train(config_of(spec), tmp_path / "run")
    x = torch.from_numpy(TASK.split("test", 0).inputs)
    expected = autapse.load(tmp_path / "run")(x)  # its module is imported already
    del sys.modules[NAME]
    for call in (lambda: autapse.load(tmp_path / "run"), lambda: Trainer.resume(tmp_path / "run")):
        with pytest.raises(checks.InputError, match=rf"would run the module {NAME}.*trust=True \(--trust\)"):
            call()
        assert NAME not in sys.modules
    assert torch.equal(autapse.load(tmp_path / "run", trust=True)(x), expected)
    assert Trainer.resume(tmp_path / "run", trust=True).train()["steps"] == 20
    (tmp_path / f"{NAME}.py").unlink()
    del sys.modules[NAME]
    with pytest.raises(checks.InputError, match="cell must name a module that can be imported"):
        autapse.load(tmp_path / "run", trust=True)


def test_a_config_takes_the_class_itself(module, tmp_path):
    train(config_of(f"{module}:Mean"), tmp_path / "by-name")
    own = sys.modules[NAME].Mean
    assert config_of(own) == config_of(f"{module}:Mean")
    assert config_of(autapse.RIN) == config_of("rin")


def test_installed_packages_offer_tasks(module, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write_package(tmp_path, "[autapse.tasks]\nnumerals = autapse.tasks:Digits\nwrong = cells_of_mine:Mean\n")
    assert task_class("numerals") is Digits
    with pytest.raises(checks.InputError, match=r"entry point wrong must be a subclass of autapse\.tasks\.Task"):
        task_class("wrong")
    with pytest.raises(checks.InputError, match=r"task must be one of .*numerals"):
        task_class("numeral")


def test_a_run_on_arrays_is_resumed_with_the_same_arrays_only(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(40, 6, 2)), np.arange(40) % 2
    config = RunConfig(task=ArrayTask(x, y), model=ModelConfig(hidden_size=(4,)), training=TrainingConfig(**SETTINGS))
    whole = train(config, tmp_path / "whole")
    stopped = Trainer(config).start(files.new_folder(tmp_path / "run"))
    stopped._close()
    with pytest.raises(checks.InputError, match="trained on arrays in memory, which are not in its folder"):
        Trainer.resume(tmp_path / "run")
    with pytest.raises(checks.InputError, match="Its arrays must be the same"):
        Trainer.resume(tmp_path / "run", task=ArrayTask(x + 1, y))
    resumed = Trainer.resume(tmp_path / "run", task=ArrayTask(x, y)).train()
    assert resumed["test"] == whole["test"]
    train(small_config(), tmp_path / "other")
    with pytest.raises(checks.InputError, match="task must be the one of"):
        Trainer.resume(tmp_path / "other", task=ArrayTask(x, y))
