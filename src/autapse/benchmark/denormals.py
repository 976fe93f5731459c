"""Denormals: numbers below 1e-38. Vanishing gradients produce them, and torch is several times slower on them.

`torch.set_flush_denormal` acts on the calling thread, and on worker threads only if they start later. So it is called
in a new process before any parallel operation, and the result is checked on the worker threads.
"""

from __future__ import annotations

import torch

COUNT = 1 << 22  # values, enough for every thread to get some


def set_flushing(on: bool, threads: int | None) -> tuple[bool | None, bool | None]:
    """Turn flushing on or off. Call this before any other work.

    Returns:
        What `workers_keep_denormals` finds. If the threads keep denormals although flushing is on, this raises.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    if on and not torch.set_flush_denormal(True):
        raise RuntimeError("This processor cannot flush denormals to zero, so torch cannot be measured that way.")
    kept = workers_keep_denormals()
    if on and kept != (False, False):
        raise RuntimeError(
            f"Denormals must be flushed on all threads; kept by products of elements, by torch.mm: {kept}."
        )
    return kept


def workers_keep_denormals() -> tuple[bool | None, bool | None]:
    """Whether a parallel elementwise product, and torch.mm, keep denormals: all, none, or (None) some of them."""
    bits = torch.full((COUNT,), 1 << 10, dtype=torch.int32)  # as bits: arithmetic would flush them here
    scaled = bits.view(torch.float32) * torch.ones(COUNT)
    small = torch.full((512, 512), 1e-20)
    product = torch.mm(small, torch.eye(512) * 1e-20)
    return _kept(scaled), _kept(product)


def _kept(values: torch.Tensor) -> bool | None:
    kept = values.view(torch.int32) != 0
    return True if bool(kept.all()) else None if bool(kept.any()) else False
