"""The random choices of layers, collected while a model is called, so that training can learn from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

_noted: ContextVar[list[Tensor] | None] = ContextVar("noted", default=None)


@contextmanager
def noted_draws() -> Iterator[list[Tensor]]:
    """Collect the log-probability of what layers draw in this context, one tensor [B] per call of a layer.

    Only layers that are trained by REINFORCE have such draws: `Memory` with hard="sample". The list belongs to this
    context and thread, so that layers keep nothing from call to call.

    Returns:
        A context manager, which gives the list.

    >>> layer = autapse.Memory(3, 4, slots=5, hard="sample")
    >>> with noted_draws() as draws:
    ...     output, h_n = layer(torch.zeros(7, 2, 3))
    >>> [log_probability.shape for log_probability in draws]
    [torch.Size([2])]
    """
    draws: list[Tensor] = []
    token = _noted.set(draws)
    try:
        yield draws
    finally:
        _noted.reset(token)


def note_draws(log_probability: Tensor) -> None:  # [B]
    """Add to the list of the context, if there is one."""
    draws = _noted.get()
    if draws is not None:
        draws.append(log_probability)
