"""Fit a power law: how a cost grows with n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class PowerLaw(NamedTuple):
    """A cost of factor·n^exponent."""

    factor: float
    exponent: float
    r2: float  # share of the variance of the logarithms that the law explains


def power_law(lengths: Sequence[float], costs: Sequence[float]) -> PowerLaw:
    """Fit a power law by least squares of the logarithms.

    >>> law = power_law([1, 2, 4], [3, 12, 48])
    >>> round(law.factor, 6), round(law.exponent, 6), round(law.r2, 6)
    (3.0, 2.0, 1.0)
    """
    x, y = np.log(lengths), np.log(costs)
    exponent, start = np.polyfit(x, y, 1)
    left, total = float(((y - exponent * x - start) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
    return PowerLaw(float(np.exp(start)), float(exponent), 1.0 if total == 0 else 1 - left / total)
