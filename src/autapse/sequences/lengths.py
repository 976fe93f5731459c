"""Lengths of sequences: how they are checked, and how they relate to the number of sequences per step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from autapse import checks


def running(lengths: Tensor, steps: int) -> Tensor:  # [B] -> [steps, B] bool
    """Which sequences have a step t, for t = 0 … steps − 1; its row sums are the number of sequences per step.

    With the number of sequences per step in place of `lengths`, the row sums are the lengths of the sequences, longest
    first.
    """
    return torch.arange(steps)[:, None] < lengths


def checked_lengths(lengths: Sequence[int] | Tensor | None, steps: int, count: int) -> Tensor:  # [B], on the CPU
    """The lengths that a caller gave, if there are `count` integers from 0 to `steps`. None: all have `steps`."""
    if lengths is None:
        return torch.full((count,), steps)
    rule = f"be {count} integers from 0 to {steps}, one per sequence"
    try:
        given = torch.as_tensor(lengths).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        checks.fail("lengths", rule, lengths)
    integral = not (given.dtype.is_floating_point or given.dtype.is_complex or given.dtype == torch.bool)
    if not integral and given.numel():  # an empty list becomes a float tensor
        remedy = f"Convert them with {'.long()' if isinstance(lengths, Tensor) else 'int()'}."
        checks.fail("lengths", rule, checks.brief(lengths), remedy)
    if tuple(given.shape) != (count,) or bool(((given < 0) | (given > steps)).any()):
        checks.fail("lengths", rule, checks.brief(lengths))
    return given.long()
