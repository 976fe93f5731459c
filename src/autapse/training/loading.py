"""Trained models from run folders and checkpoint files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from autapse import checks
from autapse.models import Model
from autapse.tasks import Signature
from autapse.training.checkpoint import load_weights, read_file, read_run
from autapse.training.config import RunConfig
from autapse.training.model import make_model

NEWER = ("channels", "length")  # fields of a signature that are empty in runs of older versions


def find_run(path: str | Path) -> Path:
    """The folder of a run.

    Args:
        path: where the run should be.

    Returns:
        `path` as a Path. If there is no run, the error names one with a similar name.
    """
    folder = Path(path)
    if not (folder / "config.json").is_file():
        beside = folder.parent if folder.parent.is_dir() else Path()
        runs = sorted(str(config.parent) for config in beside.glob("*/config.json"))
        inside = sorted(str(config.parent) for config in folder.glob("*/config.json"))
        remedy = f"It has runs inside, such as {inside[0]}." if inside else checks.closest(str(folder), runs)
        remedy = remedy or "A run is a folder with config.json, as `autapse run` writes it."
        raise checks.InputError(f"There is no run at {folder}. {remedy}")
    return folder


def load(run_or_file: str | Path, device: torch.device | str = "cpu", trust: bool = False) -> Model:
    """Load a trained model, in evaluation mode, with its best weights.

    Args:
        run_or_file: the folder of a run, or a checkpoint file.
        device: where the model is to be.
        trust: allow importing the module of the cell, if the run was trained with a cell of your own
            (`my_module:MyCell`). Importing a module runs its code, so pass True only for runs from people whom you
            trust.

    Returns:
        The model. `model.predict(x)` takes values as they were in the training data.

    >>> model = autapse.load("runs/adding-gru")                                  # doctest: +SKIP
    >>> model.predict(x)                                                          # doctest: +SKIP
    """
    return load_run(run_or_file, device, trust)[0]


def load_run(
    run_or_file: str | Path, device: torch.device | str = "cpu", trust: bool = False
) -> tuple[Model, RunConfig, Signature]:
    """Load a trained model with the settings of its run.

    Args:
        run_or_file: the folder of a run, or a checkpoint file.
        device: where the model is to be.
        trust: allow importing the module of the cell, as in `load`.

    Returns:
        The model in evaluation mode, the run's config, and the signature of its data.
    """
    path = Path(run_or_file)
    saved = read_file(path, trust) if path.is_file() else read_run(find_run(path), trust)
    model = make_model(saved.config.task, saved.config.model, str(device), saved.signature)
    load_weights(model, saved.best, saved.path)
    return model.eval(), saved.config, saved.signature


def check_data(present: Signature, known: Signature, source: object) -> None:
    """Refuse data that are not those of a run, as far as the signature shows."""
    changed = [f.name for f in dataclasses.fields(known) if getattr(known, f.name) != getattr(present, f.name)]
    changed = [name for name in changed if getattr(known, name) or name not in NEWER]
    if changed:
        raise checks.InputError(
            f"The data of {source} changed since it was trained: {', '.join(changed)} differ. Put the old data back."
        )
