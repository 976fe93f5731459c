"""Weights that are drawn once: buffers, or parameters if they are to be learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from autapse import checks


def hold(cell: nn.Module, name: str, shape: tuple[int, ...] | None, learn: bool, **factory: Any) -> None:
    """Give a cell a buffer, or a parameter if it learns. It is None without a shape.

    >>> module = torch.nn.Module()
    >>> hold(module, "weight", (2, 3), learn=False)
    >>> list(module.parameters()), module.weight.shape
    ([], torch.Size([2, 3]))
    """
    value = None if shape is None else torch.empty(shape, **factory)
    if learn:
        cell.register_parameter(name, None if value is None else nn.Parameter(value))
    else:
        cell.register_buffer(name, value)


def uniform(*shape: int) -> Tensor:
    """Uniform in ±1, in float64 on the CPU, so that weights do not depend on dtype and device."""
    return 2 * torch.rand(shape, dtype=torch.float64) - 1


def checked_scaling(scaling: Any, features: int) -> float | list[float]:
    """The option `input_scaling`: a number, or one per feature."""
    if not isinstance(scaling, Tensor | list | tuple):
        return checks.number("input_scaling", scaling, low=0.0)
    values = [checks.number("input_scaling", float(value), low=0.0) for value in scaling]
    if len(values) != features:
        checks.fail("input_scaling", f"have one number per feature, {features}", len(values))
    return values
