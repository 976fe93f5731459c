"""Clipping of gradients, by value and by norm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


@torch.no_grad()
def clip(parameters: Sequence[nn.Parameter], norm: float | None, value: float | None) -> float:
    """Clip the gradients in place, first by value, then by norm; return their norm before clipping.

    If that norm is not finite, the gradients are left unchanged.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    total = _norm(gradients)
    if finite(total) and value is not None:
        for gradient in gradients:
            gradient.clamp_(-value, value)
    clipped = total if value is None or not finite(total) else _norm(gradients)
    if norm is not None and finite(total) and clipped > norm:
        for gradient in gradients:
            gradient.mul_(norm / clipped)
    return total


def finite(norm: float) -> bool:
    """Whether a gradient norm is finite, so that a step may be taken."""
    return norm < float("inf")  # False for NaN too


def _norm(gradients: Sequence[Tensor]) -> float:
    # In float64: a float32 norm overflows for entries that are large but finite, which can still be clipped.
    return float(torch.stack([g.double().norm() for g in gradients]).norm())
