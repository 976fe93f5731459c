"""The pointwise nonlinearities of the forms. The derivative of each is a function of its value."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Activation(NamedTuple):
    """y = apply(a), and dy/da = slope(y)."""

    apply: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _identity(a: Tensor) -> Tensor:
    return a


ACTIVATIONS = {
    "tanh": Activation(torch.tanh, lambda y: 1 - y * y),
    "relu": Activation(torch.relu, lambda y: (y > 0).to(y.dtype)),
    "sigmoid": Activation(torch.sigmoid, lambda y: y * (1 - y)),
    "identity": Activation(_identity, torch.ones_like),
}


def modrelu(a: Tensor, threshold: Tensor) -> Tensor:
    """sign(a)·max(0, |a| + b): keeps the sign and shifts the absolute value."""
    return torch.sign(a) * torch.relu(a.abs() + threshold)
