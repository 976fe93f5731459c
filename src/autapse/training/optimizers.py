"""The optimizers by name. Most are torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from autapse.training.config import WITH_MOMENTUM, TrainingConfig
from autapse.training.curvature import LocalProblem
from autapse.training.hessian_free import HessianFree

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": torch.optim.SGD,
    "nesterov": partial(torch.optim.SGD, nesterov=True),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}
NOT_FUSED = {"rmsprop"}  # torch has no fused version of it
Problem = Callable[[], LocalProblem]


def make_optimizer(config: TrainingConfig, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The optimizer that a config names; on a CPU torch's fused version, which updates all weights in one pass."""
    parameters = list(parameters)
    if config.optimizer == "hessian-free":
        return HessianFree(parameters, config.learning_rate, config.damping, config.structural_damping, config.cg_steps)
    in_one_pass = config.optimizer not in NOT_FUSED and all(weight.device.type == "cpu" for weight in parameters)
    extra: dict[str, Any] = {"fused": True} if in_one_pass else {}
    if config.optimizer in WITH_MOMENTUM:
        extra["momentum"] = config.momentum
    return OPTIMIZERS[config.optimizer](parameters, lr=config.learning_rate, weight_decay=config.weight_decay, **extra)


def set_rates(optimizer: Optimizer, config: TrainingConfig, rate: float, momentum: float) -> None:
    """Give an optimizer the learning rate and the momentum of its next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate
        if config.optimizer in WITH_MOMENTUM:
            group["momentum"] = momentum


def update(optimizer: Optimizer, problem: Problem) -> None:
    """Take one step. Most optimizers need only the gradients; some evaluate the loss and its curvature themselves.

    Args:
        optimizer: the optimizer of weights that have gradients.
        problem: makes the loss on the batch as a function of the weights.
    """
    if isinstance(optimizer, HessianFree):
        optimizer.step(problem())
    else:
        optimizer.step()


def state_of_one(config: TrainingConfig) -> dict[str, Tensor]:
    """The state of the optimizer for a parameter of size 1, after its first step."""
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    optimizer = make_optimizer(config, [parameter])
    if not optimizer.state[parameter]:
        optimizer.step()
    return {name: value for name, value in optimizer.state[parameter].items() if isinstance(value, Tensor)}
