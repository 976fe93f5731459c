"""The biased random walk (paper: implicit networks, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from autapse import checks
from autapse.tasks.base import IGNORE, Data, Generated, Kind, Metric, Split, dense, generator, majority_error
from autapse.tasks.change_point import Direction, drift_posterior


@dataclass(frozen=True, kw_only=True)
class Walk(Generated):
    """x_0 = 0, x_t = x_{t−1} + N(0, I) + b·w_t·v with w_t = clip(t − t0, 0, 1); y_t = 1 where t > t0.

    Each walk has its own N (uniform in 1 … max_length), t0 (uniform in [0, N)) and v. Its times are 0 … N, so it has
    N + 1 points, and its drift always begins before the last one.

    Args:
        max_length: Largest N; the longest walk has max_length steps and one more point.
        dimensions: Dimension d of the space.
        bias: Drift b per step; a smaller value is harder.
        direction: Direction v of the drift: uniform in [0, 1]^d, or a random unit vector.
        train_size, validation_size, test_size: Number of walks in each split.

    Example:
        >>> Walk(max_length=10).split("test", seed=0).inputs.shape
        (5000, 11, 8)
    """

    train_size: int = 50_000
    validation_size: int = 2_500
    test_size: int = 5_000
    max_length: int = 40
    dimensions: int = 8
    bias: float = 0.5
    direction: Direction = "uniform"

    name: ClassVar[str] = "walk"
    summary: ClassVar[str] = "predict at every step of a random walk whether its drift has begun"
    kind: ClassVar[Kind] = "tagging"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the more frequent class"
    output_size = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("max_length", self.max_length, minimum=1)
        checks.integer("dimensions", self.dimensions, minimum=1)
        checks.number("bias", self.bias, above=0)
        checks.one_of("direction", self.direction, get_args(Direction))

    @property
    def input_size(self) -> int:
        return self.dimensions

    def split(self, split: Split, seed: int) -> Data:
        rng, size, times = generator(split, seed), self.size(split), np.arange(self.max_length + 1)
        last = rng.integers(1, self.max_length + 1, size)  # N
        t0 = (rng.random(size) * last)[:, None]
        drift = self.bias * self._directions(size, rng)[:, None]
        steps = rng.standard_normal((size, len(times), self.dimensions), dtype=np.float32)
        steps[:, 0] = 0
        steps += np.clip(times - t0, 0, 1)[..., None] * drift
        valid = times <= last[:, None]
        inputs = np.where(valid[..., None], steps.cumsum(axis=1), np.float32(0))
        return Data(inputs, np.where(valid, times > t0, IGNORE), last + 1)

    def _directions(self, size: int, rng: np.random.Generator) -> np.ndarray:
        if self.direction == "uniform":
            return rng.random((size, self.dimensions))
        v = rng.standard_normal((size, self.dimensions))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        return v

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> float:
        """The error of predicting the more probable class at every step, given the whole walk but neither t0 nor v."""
        targets = dense(data.targets)
        valid = targets != IGNORE
        likely = drift_posterior(data, self.bias, self.direction) > 0.5
        return float(np.mean(likely[valid] != targets[valid]))
