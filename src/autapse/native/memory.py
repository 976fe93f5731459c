"""Memory for large results."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from autapse.native import library

HUGE = 4 << 20  # bytes from which new memory is requested in huge pages


def fresh(like: Tensor, shape: Sequence[int]) -> Tensor:
    """An uninitialised tensor, in huge pages if it is large: faults on small pages cost as much as the arithmetic."""
    made = like.new_empty(shape)
    if made.nbytes >= HUGE and made.device.type == "cpu" and library.available():
        library.load().library.autapse_huge_pages(made.data_ptr(), made.nbytes)
    return made
