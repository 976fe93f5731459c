"""NARMA: a nonlinear filter of random input (Atiya and Parlos 2000), on which reservoirs are often compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Signature, Split, generator
from autapse.tasks.step_values import StepValues, made

LIMIT = 1.0  # values above it belong to a sequence that diverges; it is drawn again


@dataclass(frozen=True, kw_only=True)
class NARMA(StepValues):
    """y_t = 0.3·y_{t−1} + 0.05·y_{t−1}·Σ_{i=1…n} y_{t−i} + 1.5·x_{t−n}·x_{t−1} + 0.1, x uniform in [0, 0.5].

    Before the first step, x and y are 0. y_t does not depend on x_t, so that the network predicts.

    Args:
        length: Steps T of every sequence.
        order: n, how far back y_t depends on x and y.
        train_size, validation_size, test_size: Number of sequences in each split.

    Example:
        >>> NARMA(length=50).split("test", seed=0).inputs.shape
        (50, 50, 1)
    """

    length: int = 300
    order: int = 10

    name: ClassVar[str] = "narma"
    summary: ClassVar[str] = "compute a nonlinear filter of random input at every step"
    input_size, output_size = 1, 1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=1)
        checks.integer("order", self.order, minimum=1, maximum=10)

    def signature(self) -> Signature:
        return Signature(
            kind=self.kind,
            input_size=1,
            output_size=1,
            mean=(0.25,),
            scale=(0.5 / 12**0.5,),
            target_mean=(0.4,),
            target_scale=(0.1,),
        )

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        x = rng.uniform(0, 0.5, (size, self.length))
        y = narma(x, self.order)
        while (bad := ~(np.abs(y) < LIMIT).all(axis=1)).any():
            x[bad] = rng.uniform(0, 0.5, (int(bad.sum()), self.length))
            y[bad] = narma(x[bad], self.order)
        return made(x[..., None], y[..., None])


def narma(x: np.ndarray, order: int = 10) -> np.ndarray:  # [N, T] -> [N, T]
    """The filter, from x and y that are 0 before the first step."""
    pad = np.zeros((len(x), order))
    x, y = np.concatenate([pad, x], axis=1), np.concatenate([pad, np.zeros_like(x)], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(order, x.shape[1]):
            last = y[:, t - 1]
            y[:, t] = 0.3 * last + 0.05 * last * y[:, t - order : t].sum(axis=1) + 0.1
            y[:, t] += 1.5 * x[:, t - order] * x[:, t - 1]
    return y[:, order:]
