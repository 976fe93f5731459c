"""A run small enough for tests: adding with ten steps."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from autapse.tasks import Adding, Task
from autapse.training import ModelConfig, RunConfig, TrainingConfig

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


def autapse(*words: str, cwd: Path, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "autapse", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False, **keywords)
