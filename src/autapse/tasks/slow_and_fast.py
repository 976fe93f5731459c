"""A fast oscillation whose class depends on a slow context: two time scales in one sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import IGNORE, Data, Generated, Kind, Metric, Split, dense, generator, majority_error

ASKED = ("every", "last")


@dataclass(frozen=True, kw_only=True)
class SlowAndFast(Generated):
    """The first step shows a context; each burst after it oscillates at one of two periods; y names both.

    Channel 0 is the context, −1 or 1, at the first step, and 0 later. Channel 1 is sin(2π·t/period) in bursts of equal
    length, t = 0 at the first step of a burst, each with one of the two periods. Both channels have noise. At the last
    step of a burst the target is one of four classes: 0 and 1 for the first and the second period if the context is −1,
    2 and 3 if it is 1. Other steps have no target. So a network must tell the periods apart within a burst, which a
    linear filter over a burst can do, and remember the context over all bursts. One that knows only the periods, or
    only the context, has an error of 0.5.

    If every burst is asked, a network can learn to hold the context over one burst, and then holds it over all. If only
    the last one is, nothing that is asked before helps to bridge the whole sequence.

    Args:
        bursts: Number of bursts.
        burst: Steps of a burst.
        periods: The two periods, in steps.
        noise: Standard deviation of the noise.
        asked: Which bursts have a target: every, or last.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> data = SlowAndFast(bursts=4, burst=10).split("test", seed=0)
        >>> data.inputs.shape, (data.targets[0] >= 0).nonzero()[0].tolist()
        ((2000, 40, 2), [9, 19, 29, 39])
    """

    bursts: int = 8
    burst: int = 12
    periods: tuple[float, float] = (3.0, 4.0)
    noise: float = 0.3
    asked: str = "every"

    name: ClassVar[str] = "slow-and-fast"
    summary: ClassVar[str] = "name the period of each burst, and the context that was shown long before"
    kind: ClassVar[Kind] = "tagging"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent class"
    solved: ClassVar[float | None] = 0.05
    input_size = 2
    output_size = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("bursts", self.bursts, minimum=1)
        checks.integer("burst", self.burst, minimum=2)
        checks.number("noise", self.noise, low=0.0)
        checks.one_of("asked", self.asked, ASKED)
        if not isinstance(self.periods, tuple | list) or len(self.periods) != 2:
            checks.fail("periods", "be two numbers of steps, as in (3.0, 4.0)", self.periods)
        first, second = (checks.number("periods", period, low=2.0) for period in self.periods)
        if first == second:
            checks.fail("periods", "be different", self.periods)
        object.__setattr__(self, "periods", (first, second))

    @property
    def length(self) -> int:
        """Steps T of every sequence."""
        return self.bursts * self.burst

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        context = rng.integers(0, 2, size)
        which = rng.integers(0, 2, (size, self.bursts))
        inputs = self.noise * rng.standard_normal((size, self.length, 2))
        inputs[:, 0, 0] += 2 * context - 1
        inputs[:, :, 1] += self._waves()[which].reshape(size, self.length)
        targets = np.full((size, self.length), IGNORE)
        asked = slice(-1, None) if self.asked == "last" else slice(None)
        targets[:, self.burst - 1 :: self.burst][:, asked] = (which + 2 * context[:, None])[:, asked]
        return Data(inputs.astype(np.float32), targets)

    def _waves(self) -> np.ndarray:  # [2, burst]
        """A burst of each period, without noise."""
        return np.sin(2 * np.pi * np.arange(self.burst) / np.array(self.periods)[:, None])

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> float:
        """The error of the more probable class: matched filters on the first step and on each burst."""
        first, second = self._waves()
        inputs, targets = dense(data.inputs), dense(data.targets)
        bursts = inputs[..., 1].reshape(-1, self.bursts, self.burst)
        which = bursts @ (second - first) > (second @ second - first @ first) / 2
        likely, right = which + 2 * (inputs[:, :1, 0] > 0), targets[:, self.burst - 1 :: self.burst]
        return float(np.mean((likely != right)[right != IGNORE]))
