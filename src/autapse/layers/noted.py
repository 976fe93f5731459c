"""What layers note while a model is called, so that training can learn from it: draws and penalties."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor


class NotedTensors:
    """Tensors that layers note, one [B] per call. They belong to a context and a thread: layers keep nothing.

    Args:
        name: of the context variable.

    >>> layer = autapse.Memory(3, 4, slots=5, hard="sample")
    >>> with DRAWS.noted() as draws:
    ...     output, h_n = layer(torch.zeros(7, 2, 3))
    >>> [log_probability.shape for log_probability in draws]
    [torch.Size([2])]
    """

    def __init__(self, name: str) -> None:
        self._list: ContextVar[list[Tensor] | None] = ContextVar(name, default=None)

    @contextmanager
    def noted(self) -> Iterator[list[Tensor]]:
        """Collect what layers note inside the `with` block, as a list."""
        notes: list[Tensor] = []
        token = self._list.set(notes)
        try:
            yield notes
        finally:
            self._list.reset(token)

    def add(self, value: Tensor) -> None:  # [B]
        """Add to the list of the context, if there is one."""
        notes = self._list.get()
        if notes is not None:
            notes.append(value)


DRAWS = NotedTensors("draws")
"""The log-probabilities of what layers draw, if they are trained by REINFORCE: `Cell.log_probability`."""
PENALTIES = NotedTensors("penalties")
"""What the loss adds for each sequence: `Cell.penalty`."""
