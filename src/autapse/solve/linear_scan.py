"""linear_scan: a linear recurrence, all steps at once by an associative scan."""

from __future__ import annotations

import torch
from torch import Tensor


def linear_scan(
    slope: Tensor,  # [T, B, S, S], or [T, B, S] for diagonal matrices
    offset: Tensor,  # [T, B, S]
) -> Tensor:  # [T, B, S]
    """The y_t of y_t = A_t·y_{t−1} + b_t with y_{−1} = 0, in about 2·log₂ T rounds.

    Each round composes pairs of steps: (A', b') after (A, b) is (A'·A, A'·b + b'). A_0 is not used.

    Args:
        slope: A, [T, B, S, S] matrices or [T, B, S] diagonals.
        offset: b, [T, B, S].

    Returns:
        y, [T, B, S].

    >>> linear_scan(torch.full((4, 1, 1), 0.5), torch.ones(4, 1, 1)).flatten()
    tensor([1.0000, 1.5000, 1.7500, 1.8750])
    """
    steps = len(offset)
    if steps == 1:
        return offset
    even, odd = slice(0, steps - 1, 2), slice(1, None, 2)
    inner = _apply(slope[odd], offset[even]) + offset[odd]
    ends = linear_scan(slope[odd] @ slope[even] if slope.dim() == 4 else slope[odd] * slope[even], inner)
    result = torch.empty_like(offset)
    result[0], result[odd] = offset[0], ends
    result[2::2] = _apply(slope[2::2], ends[: (steps - 1) // 2]) + offset[2::2]
    return result


def _apply(slope: Tensor, y: Tensor) -> Tensor:
    return (slope @ y.unsqueeze(-1)).squeeze(-1) if slope.dim() == 4 else slope * y
