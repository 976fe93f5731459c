"""A network that can be run, differentiated and compared: ours or a peer's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from autapse.errors import Ending

Gradients = dict[str, Tensor]  # under the names of our own parameters


class Unequal(Ending):
    """Two implementations of one network gave different results, so their times cannot be compared."""


class NotMeasured(Exception):  # noqa: N818 (what happened)
    """A peer that cannot run this; the message says why."""


@dataclass
class Candidate:
    name: str
    module: nn.Module  # has the parameters
    forward: Callable[[Tensor], Tensor]  # [T, B, D] -> [T, B, H]
    gradients: Callable[[], Gradients]

    def train(self, x: Tensor, gradient: Tensor) -> Tensor:
        """A training step without its optimizer: forward and backward."""
        self.module.zero_grad(set_to_none=True)
        output = self.forward(x)
        torch.autograd.backward(output, gradient)
        return output

    def infer(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.forward(x)


def own_gradients(module: nn.Module) -> Callable[[], Gradients]:
    """The gradients of a module whose parameters have our names."""
    return lambda: {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
