"""A learning curve in few points, for a result file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

POINTS = 60
DIGITS = 5


@dataclass(frozen=True)
class Curve:
    """Training loss and validation score over epochs; each point is for an interval of steps."""

    epoch: tuple[float, ...]
    """End of each interval."""
    loss: tuple[float | None, ...]
    """Mean training loss in each interval; None where no loss was recorded or none was finite."""
    validation: tuple[float | None, ...]
    """Last validation score in each interval, in the task's own metric; None where there was no validation."""


def curve_of(
    records: Iterable[Mapping[str, Any]],  # the lines of a run's metrics.jsonl
    per_epoch: float,  # training steps in one epoch
    points: int = POINTS,  # largest number of points
) -> Curve | None:
    """The curve of a run, or None if the run recorded nothing, or took no steps.

    >>> curve_of([{"step": 10, "loss": 2.0}, {"step": 20, "loss": 1.0}, {"step": 20, "validation": 0.5}], 10, points=1)
    Curve(epoch=(2.0,), loss=(1.5,), validation=(0.5,))
    """
    numbers = [record for record in records if "loss" in record or "validation" in record]
    last = max((record["step"] for record in numbers), default=0)
    if not last:
        return None
    width = math.ceil(last / points)
    intervals: dict[int, list[Mapping[str, Any]]] = {}
    for record in numbers:
        intervals.setdefault((record["step"] - 1) // width, []).append(record)
    members = sorted(intervals.items())
    return Curve(
        epoch=tuple(_short(min((n + 1) * width, last) / per_epoch) for n, _ in members),
        loss=tuple(_mean(_known(inside, "loss")) for _, inside in members),
        validation=tuple(next(reversed(_known(inside, "validation")), None) for _, inside in members),
    )


def _known(records: list[Mapping[str, Any]], key: str) -> list[float]:
    return [_short(record[key]) for record in records if record.get(key) is not None]


def _mean(values: list[float]) -> float | None:
    return _short(sum(values) / len(values)) if values else None


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
