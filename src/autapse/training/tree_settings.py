"""The settings of networks that read trees."""

from __future__ import annotations

from autapse.training.defaults import Defaults
from autapse.training.model_config import TreeConfig

TREES = Defaults(
    TreeConfig,
    model={"hidden_size": (100,), "input_dropout": 0.3, "output_dropout": 0.5},
    training={
        "batch_size": 25,
        "optimizer": "adamw",
        "learning_rate": 2e-3,
        "weight_decay": 0.05,
        "epochs": 20.0,
        "clip_norm": 5.0,
        "early_stop": 12,
        "eval_every": 150,
    },
    without_validation={"early_stop": None, "schedule": "cosine", "epochs": 5.0},
)
"""Settings that suit trees with words: the training goes on until validation does not improve any more."""
