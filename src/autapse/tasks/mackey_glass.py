"""The Mackey-Glass equation: a chaotic oscillation with a delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Generated, Signature, Split, WrittenShape, generator
from autapse.tasks.generation import Generation, nothing, with_gaps

STEP = 0.5  # of the integration
BURN = 300.0  # time until a series has forgotten its start
PIECES = 4  # sequences that are cut from one series, one after the other
MEAN, DEVIATION = 0.92, 0.23  # of the values


@dataclass(frozen=True, kw_only=True)
class MackeyGlass(Generation, Generated):
    """dz/dt = 0.2·z(t − τ) / (1 + z(t − τ)¹⁰) − 0.1·z(t); y_t is z at the times 0, Δ, 2Δ, …, with noise.

    The test score is the likelihood of each step given the steps before it. The free-running error says how well the
    model continues a sequence by itself: the mean squared error of its means after the first `primed` steps, in units
    of the variance.

    Args:
        length: Steps of a sequence.
        delay: The delay τ; the series is chaotic from about 17 on.
        interval: Time Δ between two steps.
        noise: Standard deviation of the noise that is added to each value, in units of that of the series.
        missing: Share of the values that are missing, at random.
        primed: Steps of a test sequence that the model reads before it continues by itself; 0 for no free-running
            error.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> MackeyGlass(length=50, primed=30).split("test", seed=0).targets[0].shape
        (50, 1)
    """

    train_size: int = 2_000
    validation_size: int = 200
    test_size: int = 500
    length: int = 100
    delay: float = 17.0
    interval: float = 3.0
    noise: float = 0.0
    missing: float = 0.0
    primed: int = 50

    name: ClassVar[str] = "mackey-glass"
    summary: ClassVar[str] = "continue a chaotic oscillation"
    input_size, output_size = 0, 1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=2)
        checks.number("delay", self.delay, low=1.0, high=1000.0)
        checks.number("interval", self.interval, low=STEP, high=1000.0)
        checks.number("noise", self.noise, low=0.0)
        checks.number("missing", self.missing, low=0.0, high=0.9)
        checks.integer("primed", self.primed, minimum=0, maximum=self.length - 1)

    def signature(self) -> Signature:
        shape = WrittenShape(
            longest=self.length,
            one_length=True,
            values=1,
            mean=(MEAN,),
            scale=(DEVIATION,),
            columns=("z",),
            gaps=self.missing > 0,
        )
        return Signature(kind=self.kind, input_size=0, output_size=1, written=shape)

    def steps_known(self) -> int:
        return self.primed

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        series = mackey_glass(-(-size // PIECES), self.delay, self.interval, PIECES * self.length, rng)
        values = series.reshape(-1, self.length)[:size].reshape(-1, 1)
        values = values + self.noise * DEVIATION * rng.standard_normal(values.shape)
        values = with_gaps(values.astype(np.float32), self.missing, rng)
        return Data(nothing(size), Ragged(values, np.full(size, self.length, dtype=np.int64)))


def mackey_glass(
    count: int, delay: float, interval: float, steps: int, rng: np.random.Generator
) -> np.ndarray:  # [count, steps]
    """Series from random histories, by Runge-Kutta steps of fourth order; values between steps are interpolated."""
    back = delay / STEP
    total = int((BURN + interval * steps) / STEP) + 1
    z = np.zeros((total + int(back) + 2, count))
    first = int(back) + 1
    z[: first + 1] = 1.2 + 0.3 * rng.uniform(-1, 1, (first + 1, count)).cumsum(axis=0) / np.sqrt(first + 1)

    def past(place: float) -> np.ndarray:
        low = int(place)
        return z[low] + (place - low) * (z[low + 1] - z[low])

    def rate(value: np.ndarray, before: np.ndarray) -> np.ndarray:
        return 0.2 * before / (1 + before**10) - 0.1 * value

    for n in range(first, len(z) - 1):
        early, middle, late = (past(n + part - back) for part in (0.0, 0.5, 1.0))
        k1 = rate(z[n], early)
        k2 = rate(z[n] + STEP / 2 * k1, middle)
        k3 = rate(z[n] + STEP / 2 * k2, middle)
        k4 = rate(z[n] + STEP * k3, late)
        z[n + 1] = z[n] + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    places = first + (BURN + interval * np.arange(steps)) / STEP
    return np.stack([past(place) for place in places], axis=1)
