"""The Lorenz equations (1963): a chaotic flow in three dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Signature, Split, generator
from autapse.tasks.step_values import StepValues, made

STEP = 0.01  # of the integration, at most
BURN = 10.0  # time until the flow is on its attractor
MEAN, DEVIATION = (0.0, 0.0, 23.5), (7.9, 9.0, 8.6)


@dataclass(frozen=True, kw_only=True)
class Lorenz(StepValues):
    """dx/dt = 10·(y − x), dy/dt = x·(28 − z) − y, dz/dt = x·y − 8/3·z; the target is (x, y, z) `ahead` steps later.

    Nearby states separate by a factor e in a time of about 1.1. The targets are in units of the deviation of each
    variable.

    Args:
        length: Steps T of every sequence.
        interval: Time between two steps.
        ahead: How many steps ahead the target is.
        noise: Standard deviation of the noise of the input, in units of that of each variable.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> Lorenz(length=100).split("test", seed=0).inputs.shape
        (50, 100, 3)
    """

    length: int = 300
    interval: float = 0.02
    ahead: int = 25
    noise: float = 0.0

    name: ClassVar[str] = "lorenz"
    summary: ClassVar[str] = "predict a chaotic flow at every step"
    input_size, output_size = 3, 3

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=1)
        checks.number("interval", self.interval, above=0.0, high=0.2)
        checks.integer("ahead", self.ahead, minimum=1)
        checks.number("noise", self.noise, low=0.0)

    def signature(self) -> Signature:
        return Signature(
            kind=self.kind, input_size=3, output_size=3, channels=("x", "y", "z"), mean=MEAN, scale=DEVIATION
        )

    def floor(self, data: Data) -> float | None:
        return None if self.noise else 0.0

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        flow = lorenz(MEAN + np.array(DEVIATION) * rng.normal(size=(size, 3)), self.interval, self.length + self.ahead)
        inputs = flow[:, : self.length]
        inputs = inputs + self.noise * np.array(DEVIATION) * rng.standard_normal(inputs.shape)
        return made(inputs, (flow[:, self.ahead :] - MEAN) / DEVIATION)


def lorenz(start: np.ndarray, interval: float, steps: int, burn: float = BURN) -> np.ndarray:  # [N, 3] -> [N, steps, 3]
    """The flow after each interval, by Runge-Kutta steps of fourth order. `burn` is the time before the first state."""

    def rate(s: np.ndarray) -> np.ndarray:
        x, y, z = s
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    count = math.ceil(interval / STEP)
    state, step, flow = start.T, interval / count, []
    before = math.ceil(burn / interval)
    for n in range(before + steps):
        if n >= before:
            flow.append(state.T)
        for _ in range(count):
            k1 = rate(state)
            k2 = rate(state + step / 2 * k1)
            k3 = rate(state + step / 2 * k2)
            k4 = rate(state + step * k3)
            state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.stack(flow, axis=1)
