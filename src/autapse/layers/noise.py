"""Random numbers of a training step: torch's, or those of one network of several that learn side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_OWN: ContextVar[torch.Generator | None] = ContextVar("noise", default=None)


@contextmanager
def own_noise(seed: int) -> Iterator[None]:
    """Draw dropout and noise from numbers of their own for a while, on the CPU and in this thread.

    Args:
        seed: of these numbers.

    >>> with own_noise(seed=1):
    ...     one = dropout(torch.ones(5), 0.5)
    >>> with own_noise(seed=1):
    ...     two = dropout(torch.ones(5), 0.5)
    >>> torch.equal(one, two)
    True
    """
    token = _OWN.set(torch.Generator().manual_seed(seed))
    try:
        yield
    finally:
        _OWN.reset(token)


def generator() -> torch.Generator | None:
    """Where random numbers come from: None for torch's own generator."""
    return _OWN.get()


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`torch.nn.functional.dropout`, with the numbers of `generator()`.

    Args:
        x: the values.
        p: the probability that a value becomes 0. The others are divided by 1 − p.
        training: whether to do it at all.

    Returns:
        The values that are left, as many as x has.
    """
    own = generator()
    if own is None or not training or not 0 < p < 1:
        return F.dropout(x, p, training)
    return x * torch.empty_like(x).bernoulli_(1 - p, generator=own).div_(1 - p)


def normal_like(x: Tensor) -> Tensor:
    """`torch.randn_like`, with the numbers of `generator()`."""
    return torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator())


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`, with the numbers of `generator()`."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)
