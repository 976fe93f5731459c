"""The settings of networks that forecast."""

from __future__ import annotations

from typing import Any

from autapse.tasks.forecast import Forecasting
from autapse.training.config import RunConfig
from autapse.training.defaults import Defaults
from autapse.training.model_config import ModelConfig

FORECAST = Defaults(
    ModelConfig,
    model={"hidden_size": (32,)},
    training={
        "steps": 2000,
        "seconds": 100.0,
        "optimizer": "adamw",
        "weight_decay": 0.01,
        "schedule": "cosine",
        "warmup": 0.1,
        "eval_every": 50,
        "select_by": "loss",
        "early_stop": 8,
        "threads": 1,
    },
    without_validation={"steps": 500, "select_by": "last", "early_stop": None},
)
"""Settings that suit forecasts. The network starts at zero beside a straight line that is good already, so the training
ends early if it finds nothing to add. It is so small that a second thread does not help."""


def forecast_config(
    task: Forecasting, *, model: dict[str, Any] | None = None, training: dict[str, Any] | None = None
) -> RunConfig:
    """The settings for a forecasting task.

    Args:
        task: the task.
        model: settings of the network to use instead of the default ones, by name.
        training: settings of the training to use instead of the default ones, by name.

    Returns:
        A config for `train` or `fit`.

    >>> import numpy as np
    >>> from autapse.tasks import ForecastArrays
    >>> config = forecast_config(ForecastArrays(np.sin(np.arange(200)), horizon=3), training={"seed": 1})
    >>> config.model.hidden_size, config.training.select_by, config.training.seed
    ((32,), 'loss', 1)
    """
    return FORECAST.config(task, model, training)
