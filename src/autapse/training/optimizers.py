"""The optimizers by name. All are torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn
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
NOT_FUSED = {"rmsprop"}  # torch has no fused version of it


def make_optimizer(config: TrainingConfig, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The optimizer that a config names; on a CPU torch's fused version, which updates all weights in one pass."""
    parameters = list(parameters)
    in_one_pass = config.optimizer not in NOT_FUSED and all(weight.device.type == "cpu" for weight in parameters)
    extra = {"fused": True} if in_one_pass else {}
    return OPTIMIZERS[config.optimizer](parameters, lr=config.learning_rate, weight_decay=config.weight_decay, **extra)


def state_of_one(config: TrainingConfig) -> dict[str, Tensor]:
    """The state of the optimizer for a parameter of size 1, after its first step."""
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    optimizer = make_optimizer(config, [parameter])
    optimizer.step()
    return {name: value for name, value in optimizer.state[parameter].items() if isinstance(value, Tensor)}
