"""Values that units may share or have each for itself: time constants, rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autapse import checks

PerUnit = float | tuple[float, float] | Tensor


def checked(argument: str, value: Any, units: int, number: Callable[[Any], float]) -> PerUnit:
    """The value of an option: a number for all units, a tensor with one per unit, or a pair (low, high) to draw from.

    Args:
        argument: the name of the option, for error messages.
        value: what the caller gave.
        units: number of units.
        number: checks one number, and returns it.

    >>> checked("tau", [1, 20], 8, float)
    (1.0, 20.0)
    """
    if isinstance(value, Tensor):
        if tuple(value.shape) != (units,):
            checks.fail(
                argument, f"have one value per unit, shape ({units},)", tuple(value.shape), "", checks.ShapeError
            )
        for extreme in (value.min().item(), value.max().item()):
            number(extreme)
        return value
    if isinstance(value, tuple | list):
        bounds = tuple(number(bound) for bound in value)
        if len(bounds) != 2 or bounds[0] > bounds[1]:
            checks.fail(argument, "be a number, a tensor, or a pair (low, high) with low ≤ high", value)
        return bounds
    return number(value)


@torch.no_grad()
def fill_(into: Tensor, value: PerUnit) -> None:
    """Write the value of each unit; those of a pair are drawn, uniformly in their logarithm."""
    if isinstance(value, tuple):
        low, high = (math.log(bound) for bound in value)
        # In float64 on the CPU, so that the values do not depend on dtype and device.
        value = torch.empty(into.shape, dtype=torch.float64).uniform_(low, high).exp()
    into.copy_(torch.as_tensor(value, dtype=torch.float64))
