"""The learning rate as a function of the step and of past validations, so that there is no state to save."""

from __future__ import annotations

import math

from autapse.training.config import TrainingConfig


def learning_rate(config: TrainingConfig, step: int, steps: int, halvings: int) -> float:
    """The rate of update `step` of `steps`, counted from 0, after `halvings` halvings of the plateau schedule."""
    if config.schedule == "plateau":
        return config.learning_rate * 0.5**halvings
    if config.schedule == "periodic" and config.period is not None:
        return config.learning_rate * 0.5 ** (step // config.period)
    if config.schedule == "drop":
        return config.learning_rate * (1.0 if step < steps * 2 / 3 else 0.1)
    if config.schedule == "cosine":
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
    return config.learning_rate
