"""The optimizers by name; all are torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import nn
from torch.optim import Optimizer

from autapse.training.config import TrainingConfig

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "nesterov": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}


def make_optimizer(config: TrainingConfig, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The optimizer that a config names."""
    return OPTIMIZERS[config.optimizer](parameters, lr=config.learning_rate, weight_decay=config.weight_decay)
