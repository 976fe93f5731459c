"""A network that can be run, differentiated and compared, ours or a peer's: equal results first, then times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from autapse.exit_codes import Ending

Gradients = dict[str, Tensor]  # under the names of our own parameters

# Limits for the norm of the difference over the norm: float32 over several hundred steps, summed in different orders.
# The largest difference would not do. Among millions of ReLUs, one or two have an argument so near 0 that rounding
# decides their side, and their gradient is all or nothing. A wrong sign, a missing bias or a swapped gate is off by far
# more, and a single wrong entry in a matrix of 512 × 512 by 2e-3.
OUTPUT, GRADIENT = 1e-4, 1e-3


class Unequal(Ending):
    """Two implementations of one network gave different results, so their times cannot be compared."""


class NotMeasured(Exception):  # noqa: N818 (what happened)
    """A peer cannot run this case; the message says why."""


@dataclass
class Candidate:
    """One implementation of a network, with its weights."""

    name: str
    module: nn.Module  # has the parameters
    forward: Callable[[Tensor], Tensor]  # [T, B, D] -> [T, B, H]
    gradients: Callable[[], Gradients]

    def train(self, x: Tensor, gradient: Tensor) -> Tensor:
        """A training step without the optimizer: forward and backward."""
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


def check_equal(ours: Candidate, peer: Candidate, x: Tensor, gradient: Tensor) -> float:
    """Raise `Unequal` unless one training step gives the same results; return the largest relative difference."""
    mine, theirs = ours.train(x, gradient).detach(), peer.train(x, gradient).detach()
    worst = check_tensors("output", mine, theirs, OUTPUT, peer.name)
    mine_by_name, theirs_by_name = ours.gradients(), peer.gradients()
    if mine_by_name.keys() != theirs_by_name.keys():
        raise Unequal(f"{peer.name} has gradients for {sorted(theirs_by_name)}, ours for {sorted(mine_by_name)}.")
    errors = [
        check_tensors(f"gradient of {name}", value, theirs_by_name[name], GRADIENT, peer.name)
        for name, value in mine_by_name.items()
    ]
    return max(worst, *errors)


def check_tensors(what: str, mine: Tensor, theirs: Tensor, tolerance: float, peer: str) -> float:
    """Raise `Unequal` unless the norm of the difference, relative to the norm, is within the tolerance; return it."""
    if mine.shape != theirs.shape:
        raise Unequal(f"{what}: shape {tuple(mine.shape)} against {tuple(theirs.shape)} of {peer}.")
    scale, difference = theirs.norm().item(), (mine - theirs).norm().item()
    error = difference / scale if scale else difference
    if not error <= tolerance:  # NaN fails too
        reason = f"{what} differs from that of {peer} by {error:.1e} of its norm"
        raise Unequal(f"{reason}; at most {tolerance:g} is rounding.")
    return error
