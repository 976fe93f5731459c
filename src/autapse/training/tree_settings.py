"""The settings of networks that read trees."""

from __future__ import annotations

from autapse.training.defaults import Defaults
from autapse.training.model_config import TreeConfig

TREES = Defaults(
    TreeConfig,
    model={"hidden_size": (100,), "input_dropout": 0.4, "output_dropout": 0.5},
    training={
        "batch_size": 25,
        "optimizer": "adagrad",  # word vectors of rare words keep a high rate
        "learning_rate": 0.05,
        "weight_decay": 1e-5,
        "epochs": 20.0,
        "clip_norm": 5.0,
        "early_stop": 12,
        "eval_every": 150,
    },
    without_validation={"early_stop": None, "schedule": "cosine", "epochs": 5.0},
)
"""Settings that suit trees with words: the training continues until validation stops improving."""
