"""Two classes of random walks that differ in the size of their steps (paper: ERNN, introduction, toy data)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import Data, Generated, Kind, Metric, Split, dense, generator, majority_error


@dataclass(frozen=True, kw_only=True)
class WalkVariance(Generated):
    """X_0 = 0, X_t ~ N(X_{t−1}, σ_i·I) in two dimensions, t = 1 … length; y = i. Half of the walks are of each class.

    Args:
        length: Steps T of every walk.
        variances: Variances σ_0 and σ_1 of one step in each dimension, one per class.
        train_size, validation_size, test_size: Number of walks in each split.

    Example:
        >>> WalkVariance(length=20).split("validation", seed=0).inputs.shape
        (1000, 20, 2)
    """

    test_size: int = 10_000
    length: int = 100
    variances: tuple[float, float] = (0.1, 1.0)

    name: ClassVar[str] = "walk-variance"
    summary: ClassVar[str] = "classify random walks by the size of their steps"
    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the more frequent class"
    input_size = 2
    output_size = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=1)
        if not isinstance(self.variances, tuple | list) or len(self.variances) != 2:
            checks.fail("variances", "be two numbers, one per class", self.variances)
        object.__setattr__(self, "variances", tuple(self.variances))  # JSON gives a list back
        for i, variance in enumerate(self.variances):
            checks.number(f"variances[{i}]", variance, above=0)
        if self.variances[0] == self.variances[1]:
            checks.fail("variances", "differ between the classes", self.variances)

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        targets = rng.permutation(np.arange(size) % 2)
        scale = np.sqrt(self.variances)[targets][:, None, None]
        steps = scale * rng.standard_normal((size, self.length, self.input_size))
        return Data(steps.cumsum(axis=1).astype(np.float32), targets)

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> float:
        """The error of the likelihood ratio test with known variances; the classes are equally likely."""
        steps = np.diff(dense(data.inputs).astype(float), axis=1, prepend=0)
        energy, count = np.square(steps).sum(axis=(1, 2)), steps[0].size
        likelihood = [-(count * np.log(s) + energy / s) / 2 for s in self.variances]
        return float(np.mean(np.argmax(likelihood, axis=0) != data.targets))
