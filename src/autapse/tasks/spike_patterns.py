"""Spike patterns: name the pattern that a noisy volley of spikes belongs to, as in Maass et al. (2002)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Generated, Kind, Metric, Split, generator, majority_error

TEMPLATES = 7_001  # the seed of the patterns, which are the same in all splits and runs


@dataclass(frozen=True, kw_only=True)
class SpikePatterns(Generated):
    """x_t has a 1 for each channel with a spike at step t; y is the number of the pattern.

    A pattern is a fixed random volley of spikes on all channels. In a sequence, each spike is moved by a random number
    of steps (normal, rounded), some spikes are missing, and there are others. After the pattern come `silent` steps
    with such noise alone, so that a network must remember.

    Args:
        patterns: Number of patterns.
        channels: Number of channels.
        length: Steps of a pattern.
        silent: Steps after the pattern.
        rate: Spikes per step and channel in a pattern.
        jitter: Standard deviation of the move of a spike, in steps.
        missing: Share of the spikes that are missing.
        noise: Other spikes per step and channel.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> SpikePatterns().split("test", seed=0).inputs.shape
        (500, 60, 20)
    """

    train_size: int = 1_000
    validation_size: int = 200
    test_size: int = 500
    patterns: int = 10
    channels: int = 20
    length: int = 50
    silent: int = 10
    rate: float = 0.04
    jitter: float = 2.0
    missing: float = 0.1
    noise: float = 0.01

    name: ClassVar[str] = "spike-patterns"
    summary: ClassVar[str] = "name the pattern that a noisy volley of spikes belongs to"
    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent pattern"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("patterns", self.patterns, minimum=2)
        checks.integer("channels", self.channels, minimum=1)
        checks.integer("length", self.length, minimum=1)
        checks.integer("silent", self.silent, minimum=0)
        checks.number("rate", self.rate, above=0.0, high=1.0)
        checks.number("jitter", self.jitter, low=0.0)
        checks.number("missing", self.missing, low=0.0, high=1.0)
        checks.number("noise", self.noise, low=0.0, high=1.0)

    @property
    def input_size(self) -> int:
        return self.channels

    @property
    def output_size(self) -> int:
        return self.patterns

    def templates(self) -> np.ndarray:  # [P, length, channels]
        """The patterns without noise."""
        return np.random.default_rng(TEMPLATES).random((self.patterns, self.length, self.channels)) < self.rate

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        steps = self.length + self.silent
        targets = rng.integers(0, self.patterns, size)
        inputs = rng.random((size, steps, self.channels)) < self.noise
        sequence, time, channel = self.templates()[targets].nonzero()
        kept = rng.random(len(time)) >= self.missing
        moved = np.clip(np.rint(time + self.jitter * rng.standard_normal(len(time))), 0, steps - 1).astype(np.int64)
        inputs[sequence[kept], moved[kept], channel[kept]] = True
        return Data(inputs.astype(np.float32), targets)

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> float | None:
        return None
