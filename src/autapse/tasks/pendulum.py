"""A pendulum that is pushed: where it is depends on all pushes so far, and on where it started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Generated, Signature, Split, WrittenShape, generator
from autapse.tasks.generation import Generation

STEPS = 10  # of the integration, between two steps of a sequence
INTERVAL = 0.4
FRICTION = 0.1
HELD = 0.2  # chance that the push changes at a step


@dataclass(frozen=True, kw_only=True)
class Pendulum(Generation, Generated):
    """x_t is the push on a pendulum; y_t is the sine and the cosine of its angle, and its speed, with noise.

    The sequences have the same length, and y_t depends on x_1 … x_t and, since the pendulum starts anywhere with any
    speed, on y_1 … y_{t−1} (figure 10.11 of the textbook). Without noise, x_t and y_{t−1} would be enough.

    Args:
        length: Length of the longest sequence; the shortest has half of it.
        push: Size of the pushes, in units of the weight.
        noise: Standard deviation of the noise of y.
        primed: Steps of a test sequence that the model reads before it continues by itself; 0 for no free-running
            error.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = Pendulum().split("test", seed=0)
        >>> data.inputs[0].shape[1], data.targets[0].shape[1]
        (1, 3)
    """

    train_size: int = 2_000
    validation_size: int = 200
    test_size: int = 500
    length: int = 60
    push: float = 0.5
    noise: float = 0.1
    primed: int = 5

    name: ClassVar[str] = "pendulum"
    summary: ClassVar[str] = "say how a pendulum swings, given the pushes on it"
    input_size, output_size = 1, 3

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=2)
        checks.number("push", self.push, low=0.0)
        checks.number("noise", self.noise, low=0.0)
        checks.integer("primed", self.primed, minimum=0, maximum=-(-self.length // 2) - 1)

    def signature(self) -> Signature:
        shape = WrittenShape(
            depends="sequence",
            longest=self.length,
            values=3,
            mean=(0.0, 0.63, 0.0),
            scale=(0.63, 0.47, 0.77),
            columns=("sin", "cos", "speed"),
        )
        return Signature(kind=self.kind, input_size=1, output_size=3, channels=("push",), written=shape)

    def steps_known(self) -> int:
        return self.primed

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        lengths = rng.integers(-(-self.length // 2), self.length + 1, size)
        pushes = self._pushes(size, rng)
        angles, speeds = _swing(pushes, rng.uniform(-1.5, 1.5, size), rng.uniform(-1.5, 1.5, size))
        y = np.stack([np.sin(angles), np.cos(angles), speeds], axis=2)
        y += self.noise * rng.standard_normal(y.shape)
        inside = np.arange(self.length) < lengths[:, None]
        return Data(
            Ragged(pushes[inside][:, None].astype(np.float32), lengths), Ragged(y[inside].astype(np.float32), lengths)
        )

    def _pushes(self, size: int, rng: np.random.Generator) -> np.ndarray:  # [N, T]
        """Random pushes, each of them held for some steps."""
        new = rng.random((size, self.length)) < HELD
        new[:, 0] = True
        number = new.cumsum(axis=1) - 1
        return self.push * np.take_along_axis(rng.uniform(-1, 1, (size, self.length)), number, axis=1)


def _swing(pushes: np.ndarray, angle: np.ndarray, speed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # [N, T]
    """The angle and the speed after each step: θ″ = −sin θ − 0.1·θ′ + push, by symplectic Euler steps."""
    step, angles, speeds = INTERVAL / STEPS, [], []
    for push in pushes.T:
        for _ in range(STEPS):
            speed = speed + step * (push - np.sin(angle) - FRICTION * speed)
            angle = angle + step * speed
        angles.append(angle)
        speeds.append(speed)
    return np.stack(angles, axis=1), np.stack(speeds, axis=1)
