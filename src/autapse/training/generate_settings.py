"""The settings of networks that generate sequences like people's own."""

from __future__ import annotations

from typing import Any

from autapse.tasks import OwnSequences
from autapse.training.config import RunConfig
from autapse.training.defaults import Defaults
from autapse.training.model_config import WriterConfig

GENERATE = Defaults(
    WriterConfig,
    model={"hidden_size": (128,), "output_dropout": 0.1},
    training={
        "steps": 5000,
        "seconds": 120.0,
        "batch_size": 32,
        "learning_rate": 3e-3,
        "schedule": "plateau",
        "early_stop": 10,
    },
    without_validation={"schedule": "cosine", "early_stop": None, "steps": 1000},
)
"""At most two minutes, until validation does not improve any more."""


def generate_config(
    task: OwnSequences, *, model: dict[str, Any] | None = None, training: dict[str, Any] | None = None
) -> RunConfig:
    r"""The settings for a task with people's own sequences.

    Args:
        task: the task.
        model: settings of the network to use instead of the default ones, by name.
        training: settings of the training to use instead of the default ones, by name.

    Returns:
        A config for `train` or `fit`.

    >>> from pathlib import Path
    >>> _ = Path("names.txt").write_text("anna\nbert\ncarl\ndora\n")
    >>> config = generate_config(OwnSequences(path="names.txt"), training={"seed": 1})
    >>> config.model.hidden_size, config.training.schedule, config.training.seed
    ((128,), 'plateau', 1)
    """
    return GENERATE.config(task, model, training)
