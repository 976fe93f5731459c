"""Preconditioned conjugate gradients that keep some of their iterates (Martens 2010, sections 4.4 and 4.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

SPACING = 1.3  # ratio of the numbers of two iterates that are kept
PROGRESS = 5e-4  # relative decrease per step below which the solver stops


class Iterate(NamedTuple):
    """One iterate: its number, the vector, and φ(x) = ½·xᵀA·x − bᵀx."""

    step: int
    x: Tensor
    value: float


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    right: Tensor,
    start: Tensor,
    diagonal: Tensor,
    max_steps: int,
    progress: float = PROGRESS,
) -> list[Iterate]:
    """Minimise φ(x) = ½·xᵀA·x − bᵀx, whose minimum solves A·x = b, for a symmetric and positive definite A.

    Args:
        product: A·v as a function of v.
        right: b.
        start: the first x.
        diagonal: the preconditioner, an approximation of the diagonal of A; above 0.
        max_steps: largest number of products, without the first.
        progress: stop if φ decreases by less than this share per step, over the last tenth of the steps (at least 10).

    Returns:
        Some iterates, the last one included, with numbers that grow by a factor of 1.3. Empty if `start` is exact.

    >>> A, b = torch.tensor([[4.0, 1.0], [1.0, 3.0]]), torch.tensor([1.0, 2.0])
    >>> last = conjugate_gradients(lambda v: A @ v, b, torch.zeros(2), A.diagonal(), 10)[-1]
    >>> last.step, [round(float(entry), 4) for entry in last.x]
    (2, [0.0909, 0.6364])
    """
    x, residual = start, product(start) - right
    scaled = residual / diagonal
    direction, slope = -scaled, _dot(residual, scaled)
    values, kept, next_kept, step = [0.5 * _dot(x, residual - right)], list[Iterate](), 1.0, 0
    smallest = torch.finfo(right.dtype).eps ** 2 * _dot(right, right / diagonal)
    while step < max_steps and slope > smallest:
        image = product(direction)
        curvature = _dot(direction, image)
        if not curvature > 0:  # rounding, or a matrix that is not positive definite
            break
        step, length = step + 1, slope / curvature
        x, residual = x + length * direction, residual + length * image
        values.append(0.5 * _dot(x, residual - right))
        scaled = residual / diagonal
        before, slope = slope, _dot(residual, scaled)
        direction = (slope / before) * direction - scaled
        if step >= next_kept:
            kept.append(Iterate(step, x, values[-1]))
            next_kept = SPACING * step
        if _stalls(values, progress):
            break
    if step and (not kept or kept[-1].step < step):
        kept.append(Iterate(step, x, values[-1]))
    return kept


def _dot(one: Tensor, other: Tensor) -> float:
    return float(torch.dot(one, other))


def _stalls(values: list[float], progress: float) -> bool:
    """Whether φ hardly decreased over the last steps."""
    step = len(values) - 1
    window = max(10, math.ceil(0.1 * step))
    if step <= window or values[-1] >= 0:
        return False
    return (values[-1] - values[-1 - window]) / values[-1] < window * progress
