"""The base of generated tasks with values to predict at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Generated, Kind, Metric


@dataclass(frozen=True, kw_only=True)
class StepValues(Generated):
    """A generated task with values to predict at every step. The trivial predictor knows their means."""

    train_size: int = 100
    validation_size: int = 20
    test_size: int = 50

    kind: ClassVar[Kind] = "regression per step"
    metric: ClassVar[Metric] = "mean squared error"
    baseline_text: ClassVar[str] = "always the mean"

    def baseline(self, data: Data) -> float:
        assert isinstance(data.targets, Ragged)
        return float(data.targets.values.var(axis=0, dtype=np.float64).mean())

    def floor(self, data: Data) -> float | None:
        return 0.0


def made(inputs: np.ndarray, targets: np.ndarray) -> Data:  # [N, T, D], [N, T, K]
    """Data with sequences of one length."""
    size, steps = targets.shape[:2]
    values = targets.reshape(size * steps, -1).astype(np.float32)
    return Data(inputs.astype(np.float32), Ragged(values, np.full(size, steps, dtype=np.int64)))
