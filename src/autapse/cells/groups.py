"""Groups of units with restricted connections: a group reads itself and the groups below it."""

from __future__ import annotations

import torch
from torch import Tensor


def group_of(units: int, groups: int) -> Tensor:  # [H] int64
    """The group of each unit, from 0. Groups are consecutive units, and their sizes differ by at most one.

    >>> group_of(5, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    return torch.arange(units) * groups // units


def group_mask(units: int, groups: int) -> Tensor:  # [H, H] bool
    """Whether a unit (row) may read another one (column): one of its own group, or of a group below it.

    >>> group_mask(3, 3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    group = group_of(units, groups)
    return group[:, None] >= group


def restrict(
    weight: Tensor,  # [..., k·H, S]
    mask: Tensor,  # [H, S] or [H, 1] bool
) -> Tensor:
    """The weight with exact zeros where the mask is False, in each of its k blocks of H rows."""
    blocks = weight.unflatten(-2, (-1, len(mask)))
    return blocks.masked_fill(~mask.to(weight.device), 0.0).flatten(-3, -2)
