"""A run small enough for tests: adding with ten steps."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from safetensors import safe_open
from torch import Tensor

from autapse.tasks import Adding, Task
from autapse.training import Interrupted, ModelConfig, RunConfig, Trainer, TrainingConfig

TASK = Adding(length=10, train_size=200, validation_size=40, test_size=40)


def small_config(task: Task = TASK, cell: str = "gru", dropout: float = 0.0, **training: Any) -> RunConfig:
    settings = {"steps": 30, "batch_size": 16, "eval_every": 10, **training}
    model = ModelConfig(cell=cell, hidden_size=(6, 5), dropout=dropout)
    return RunConfig(task=task, model=model, training=TrainingConfig(**settings))


def with_seed(config: RunConfig, seed: int) -> RunConfig:
    return replace(config, training=replace(config.training, seed=seed))


def final_tensors(folder: Path) -> dict[str, Tensor]:
    (path,) = folder.glob("checkpoint-*.safetensors")
    return safetensors.torch.load_file(path)


def step_of(folder: Path) -> int:
    """The step of a run's last checkpoint, also while it is being trained; -1 before the first."""
    try:
        name = json.loads((folder / "state.json").read_text())["checkpoint"]
    except FileNotFoundError:
        return -1
    return int(name.removeprefix("checkpoint-").removesuffix(".safetensors"))


def metadata_of(folder: Path) -> dict[str, Any]:
    """What a run's last checkpoint says beside its tensors."""
    with safe_open(folder / f"checkpoint-{step_of(folder)}.safetensors", framework="pt") as file:
        return {name: json.loads(text) for name, text in file.metadata().items()}


def rewrite(folder: Path, change: Callable[[dict[str, Any], dict[str, Tensor]], Any]) -> None:
    """Change the metadata and tensors of a run's last checkpoint, with a checksum that fits."""
    path = folder / f"checkpoint-{step_of(folder)}.safetensors"
    about, tensors = metadata_of(folder), safetensors.torch.load_file(path)
    change(about, tensors)
    content = safetensors.torch.save(tensors, {name: json.dumps(value) for name, value in about.items()})
    path.write_bytes(content)
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(state | {"sha256": hashlib.sha256(content).hexdigest()}))


def autapse(*words: str, cwd: Path, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "autapse", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False, **keywords)


def stopped_at(step: int, folder: Path, config: RunConfig, *signals: int) -> Interrupted:
    """Start a run in a new folder and stop it, by Ctrl-C or by other signals, after this many steps."""
    folder.mkdir()
    trainer = Trainer(config).start(folder)
    average = trainer._average  # the last thing that every step does

    def stopping(seconds: float) -> None:
        average(seconds)
        if trainer.progress.step == step - 1:
            for number in signals or [signal.SIGINT]:
                os.kill(os.getpid(), number)

    trainer._average = stopping  # type: ignore[method-assign]
    with pytest.raises(Interrupted) as stop:
        trainer.train()
    return stop.value
