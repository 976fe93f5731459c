"""Denormals: numbers below 1e-38, which vanishing gradients produce and on which torch is several times slower.

`torch.set_flush_denormal` acts on the calling thread, and on the workers only if they start later. So it is called in a
fresh process before any parallel operation, and what the workers do is looked at.
"""

from __future__ import annotations

import torch

COUNT = 1 << 22  # values, enough for a share on each thread


def set_flushing(on: bool, threads: int | None) -> tuple[bool | None, bool | None]:
    """To be called before any other work; says what the threads do, raises if they do not flush when they should."""
    if threads is not None:
        torch.set_num_threads(threads)
    if on and not torch.set_flush_denormal(True):
        raise RuntimeError("This processor cannot flush denormals to zero, so torch cannot be measured that way.")
    kept = workers_keep_denormals()
    if on and kept != (False, False):
        raise RuntimeError(f"Denormals must be flushed on all threads; kept by products of elements, by mm: {kept}.")
    return kept


def workers_keep_denormals() -> tuple[bool | None, bool | None]:
    """Whether a parallel product by elements, and torch.mm, keep denormals: yes, no, or None for some of them."""
    bits = torch.full((COUNT,), 1 << 10, dtype=torch.int32)  # as bits, since arithmetic would flush them here already
    scaled = bits.view(torch.float32) * torch.ones(COUNT)
    small = torch.full((512, 512), 1e-20)
    product = torch.mm(small, torch.eye(512) * 1e-20)
    return _kept(scaled), _kept(product)


def _kept(values: torch.Tensor) -> bool | None:
    kept = values.view(torch.int32) != 0
    return True if bool(kept.all()) else None if bool(kept.any()) else False
