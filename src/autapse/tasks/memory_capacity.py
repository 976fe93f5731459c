"""Memory capacity (Jaeger 2001): how much of its past input a network still knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Split, generator
from autapse.tasks.step_values import StepValues, made


@dataclass(frozen=True, kw_only=True)
class MemoryCapacity(StepValues):
    """x_t is random, uniform with variance 1; y_t = (x_{t−1}, …, x_{t−k}), with 0 before the first step.

    The memory capacity is the sum over the delays of the squared correlation of output and target: k if the network
    knows all of them, and at most the number of its units if it is linear. It is about k·(1 − mean squared error).

    Args:
        length: Steps T of every sequence.
        delays: k, the number of past inputs to name.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> MemoryCapacity(delays=3).split("test", seed=0).targets[0].shape
        (300, 3)
    """

    length: int = 300
    delays: int = 30

    name: ClassVar[str] = "memory-capacity"
    summary: ClassVar[str] = "name the random inputs of the last steps, at every step"
    input_size = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=1)
        checks.integer("delays", self.delays, minimum=1)

    @property
    def output_size(self) -> int:
        return self.delays

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        x = rng.uniform(-(3**0.5), 3**0.5, (size, self.length))
        padded = np.concatenate([np.zeros((size, self.delays)), x], axis=1)
        first = self.delays - 1  # the place of x_{−1}
        y = np.stack([padded[:, first - k : first - k + self.length] for k in range(self.delays)], axis=2)
        return made(x[..., None], y)
