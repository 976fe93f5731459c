"""The learning rate as a function of step, time and past validations, so that there is no state to save."""

from __future__ import annotations

import math

from autapse.training.config import TrainingConfig

RISE = 250  # steps between two values of Sutskever's momentum
LAST, LAST_MOMENTUM = 1000, 0.9  # steps at the end of the training, and their momentum
LAG = 0.05  # of the steps that are left, by which the steps may be behind the time


def learning_rate(config: TrainingConfig, step: int, steps: int, halvings: int, seconds: float = 0.0) -> float:
    """The rate of update `step` of `steps`, counted from 0.

    Args:
        config: the settings of the training.
        step: updates done.
        steps: updates of the whole training.
        halvings: halvings of the plateau schedule.
        seconds: training time so far. It matters only if `config.seconds` will end the training before `steps`.

    >>> config = TrainingConfig(learning_rate=0.1, schedule="cosine", seconds=60)
    >>> round(learning_rate(config, step=5, steps=1000, halvings=0, seconds=30.0), 4)
    0.05
    """
    place = reached(config, step, steps, seconds)
    start = config.warmup * steps
    warm = min(1.0, (place + 1) / start) if start else 1.0
    return config.learning_rate * warm * _factor(config, step, place, start, steps, halvings)


def momentum(config: TrainingConfig, step: int, steps: int, seconds: float = 0.0) -> float:
    """The momentum of update `step` of `steps`, counted from 0 (Sutskever et al. 2013, equation 5).

    Args:
        config: the settings of the training.
        step: updates done.
        steps: updates of the whole training.
        seconds: training time so far, as for `learning_rate`.

    >>> config = TrainingConfig(optimizer="nesterov", momentum=0.99, momentum_schedule="sutskever")
    >>> [momentum(config, step, 100_000) for step in (0, 250, 500, 50_000, 99_500)]
    [0.5, 0.75, 0.8333333333333334, 0.99, 0.9]
    """
    if config.momentum_schedule == "constant":
        return config.momentum
    value = min(1 - 1 / (2 * (step // RISE + 1)), config.momentum)
    near_the_end = steps - reached(config, step, steps, seconds) <= min(LAST, steps / 10)
    return min(value, LAST_MOMENTUM) if near_the_end else value


def reached(config: TrainingConfig, step: int, steps: int, seconds: float) -> float:
    """How far the training is, in steps: the step, or what the time limit says if the steps will not end in time."""
    if config.seconds is None:
        return step
    due = min(steps, steps * seconds / config.seconds)
    # A slow start does not matter: the rates stay those of the steps, so that a run can be repeated to the bit.
    return step if due <= step + LAG * (steps - due) else due


def _factor(config: TrainingConfig, step: int, place: float, start: float, steps: int, halvings: int) -> float:
    if config.schedule == "plateau":
        return float(0.5**halvings)
    if config.schedule == "periodic" and config.period is not None:
        return float(0.5 ** (step // config.period))
    if config.schedule == "drop":
        return 1.0 if place < steps * 2 / 3 else 0.1
    if config.schedule == "cosine" and place > start:
        return 0.5 * (1 + math.cos(math.pi * (place - start) / (steps - start)))
    return 1.0
