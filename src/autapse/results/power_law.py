"""The power of n that a cost grows with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class PowerLaw(NamedTuple):
    """factor·n^exponent, and the part of the variance of the logarithms that it explains."""

    factor: float
    exponent: float
    r2: float


def power_law(lengths: Sequence[float], costs: Sequence[float]) -> PowerLaw:
    """By least squares of the logarithms."""
    x, y = np.log(lengths), np.log(costs)
    exponent, start = np.polyfit(x, y, 1)
    left, total = float(((y - exponent * x - start) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
    return PowerLaw(float(np.exp(start)), float(exponent), 1.0 if total == 0 else 1 - left / total)
