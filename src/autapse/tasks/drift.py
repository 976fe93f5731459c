"""A stream whose rule changes from time to time, to be learned online."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autapse import checks

RADIUS = 0.99  # of the roots of the oscillator: how long an oscillation lasts
SLOWEST, FASTEST = 0.2, 1.5  # radians per step


@dataclass(frozen=True, kw_only=True)
class Drift:
    """z_{t+1} = 2r·cos(ω)·z_t − r²·z_{t−1} + σ·N(0, 1): a noisy oscillator whose ω is drawn again every period.

    σ gives z the variance 1. The next value is to be predicted. The best predictor knows r and ω, and its mean squared
    error is σ². A network that learned one ω and then stopped is wrong for the next one.

    Args:
        period: Steps between two changes of ω.

    Example:
        >>> Drift(period=100).values(300, seed=0).shape
        (301,)
    """

    period: int = 2000

    def __post_init__(self) -> None:
        checks.integer("period", self.period, minimum=2)

    def frequencies(self, steps: int, seed: int) -> np.ndarray:  # [steps]
        """ω at each step."""
        count = math.ceil(steps / self.period)
        drawn = np.random.default_rng([seed, 1]).uniform(SLOWEST, FASTEST, count)
        return np.repeat(drawn, self.period)[:steps]

    def noise(self, steps: int, seed: int) -> np.ndarray:  # [steps]
        """σ at each step: the smallest possible error, squared."""
        square, cosine = RADIUS**2, np.cos(self.frequencies(steps, seed))
        return np.sqrt((1 - square) * ((1 + square) ** 2 - 4 * square * cosine**2) / (1 + square))

    def values(self, steps: int, seed: int) -> np.ndarray:  # [steps + 1]
        """The values of the stream: the one at t + 1 is to be predicted after the one at t."""
        noise = self.noise(steps, seed) * np.random.default_rng([seed, 2]).standard_normal(steps)
        first = 2 * RADIUS * np.cos(self.frequencies(steps, seed))
        z = np.zeros(steps + 1)
        for t in range(steps):
            z[t + 1] = first[t] * z[t] - (RADIUS**2 * z[t - 1] if t else 0.0) + noise[t]
        return z
