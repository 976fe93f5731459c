"""Settings that are good for many data sets, with sizes that follow the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from autapse import checks
from autapse.tasks import Task
from autapse.tasks.own import OwnData
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import ModelConfig

STEPS = 1500  # enough for small sets
EPOCHS = 30  # for large ones
CONV = "conv:steps=300"  # long series lose too much with fewer steps
PER_STEP = ("tagging", "regression per step")


def recipe(
    task: Task, *, model: Mapping[str, Any] | None = None, training: Mapping[str, Any] | None = None
) -> RunConfig:
    """The settings for a task, without a search.

    Args:
        task: a task with classes or values of series: your own data, or a built-in task such as har.
        model: settings of the network that are kept as they are, by name.
        training: settings of the training that are kept as they are, by name.

    Returns:
        A config whose sizes follow the data. With validation data, the weights with the lowest validation loss are
        kept, otherwise the last ones.

    >>> import numpy as np
    >>> from autapse.tasks import ArrayTask
    >>> config = recipe(ArrayTask(np.zeros((10, 5, 2)), ["a", "b"] * 5), training={"seed": 3})
    >>> config.reader.front, config.training.batch_size, config.training.seed
    ('conv:steps=300', 8, 3)
    """
    given = training or {}
    size = len(task.both()[0] if isinstance(task, OwnData) else task.split("train", given.get("seed", 0)))
    kept = {"select_by": "loss" if getattr(task, "validation", True) else "last"}
    return RunConfig(
        task=task,
        model=_make(ModelConfig, model_settings(task.kind, model or {}), model),
        training=_make(TrainingConfig, training_settings(task.kind, size) | kept, training),
    )


def model_settings(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convolutions, a recurrent layer that reads both ways, and the mean and maximum of both over the steps."""
    per_step, streaming = kind in PER_STEP, bool(given.get("streaming"))
    front = given.get("front", "conv:pool=1" if per_step else CONV)
    settings = {"front": front, "bidirectional": not streaming, "output_dropout": 0.2}
    if per_step:
        return settings
    return settings | {"readout": "mean-max", "readout_front": front != "none", "output_norm": True}


def training_settings(kind: str, size: int) -> dict[str, Any]:
    """AdamW with warm-up and a cosine; at least 8 batches per epoch, so that small sets are not one batch."""
    batch = max(8, min(64, size // 8))
    return {
        "steps": max(STEPS, EPOCHS * size // batch),
        "batch_size": batch,
        "optimizer": "adamw",
        "learning_rate": 3e-3,
        "weight_decay": 0.01,
        "schedule": "cosine",
        "warmup": 0.25,
        "label_smoothing": 0.0 if "regression" in kind else 0.1,
        "augment": "jitter=0.05",
        "threads": 1,
    }


def _make(kind: type, settings: Mapping[str, Any], given: Mapping[str, Any] | None) -> Any:
    for name in given or {}:
        checks.one_of("setting", name, [field.name for field in dataclasses.fields(kind)])
    return kind(**{**settings, **(given or {})})
