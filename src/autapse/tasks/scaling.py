"""How a model scales its inputs: decided from the training data, with the reasons in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from autapse.data.missing import Missing
from autapse.data.ragged import Ragged
from autapse.tasks.stored import standardisation

Scaling = Literal["auto", "channel", "series", "robust", "none"]

HEAVY_TAILS = 30.0  # kurtosis (3 for a normal distribution) above which outliers would set the scale of a channel
ORDERS_OF_MAGNITUDE = 2.0  # deviation over the series of the log of their deviation: a factor of e² = 7
QUARTILES = 1.349  # distance between the quartiles of a normal distribution with deviation 1
SHOWN = 5  # channels that a reason names

Values = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class InputScaling:
    """What a model does with the values of each channel, in this order. `choose` makes it.

    Args:
        center: arcsinh((x − center) / spread) replaces x, one value per channel; empty for none.
        spread: See center; 0 for channels that keep x.
        mean: Subtracted then; empty for 0.
        scale: The divisor after that; empty for 1.
        level_mean: Not empty: each series is standardised by its own mean and deviation instead. The log of the
            deviation is one more input per channel, standardised with level_mean and level_scale.
        level_scale: See level_mean.
        difference_scale: Not empty: the change since the step before, divided by this, is one more input per channel.
        missing: What is read where a value is missing.
        reasons: Why, in sentences.

    Example:
        >>> scaling = choose(Ragged.of([np.arange(5.0)[:, None], np.arange(9.0)[:, None]]))
        >>> scaling.reasons
        ('scaling: each channel is standardised (z-score)',)
    """

    center: Values = ()
    spread: Values = ()
    mean: Values = ()
    scale: Values = ()
    level_mean: Values = ()
    level_scale: Values = ()
    difference_scale: Values = ()
    missing: Missing = "error"
    reasons: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """The same as fields of a `Signature`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "reasons"}


def choose(
    inputs: Ragged,
    scaling: Scaling = "auto",
    missing: Missing = "error",
    differences: bool = False,
    names: Sequence[str] = (),
) -> InputScaling:
    """Choose how to scale the channels of some sequences.

    Args:
        inputs: The training sequences, with steps of shape [D]. Missing values are NaN.
        scaling: "channel": z-score with mean and deviation of each channel. "series": z-score with mean and deviation
            of each channel in each series; the log of the deviation becomes an input. "robust": arcsinh of the distance
            from the median in units of the quartiles, then z-score. "none". "auto": "series" if series differ in scale
            by orders of magnitude; otherwise "channel", with arcsinh first for channels with heavy tails.
        missing: What the model reads where a value is missing.
        differences: Whether the change since the step before is an input too.
        names: Names of the channels, for the reasons.

    Returns:
        The values, with the reasons in words.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> series = [10.0**k * rng.standard_normal((50, 1)) for k in range(-4, 5)]
        >>> print(choose(Ragged.of(series)).reasons[0])
        scaling: each series is standardised by itself: their scales differ by a factor of about ... (limit 7)
    """
    if scaling == "none":
        known = InputScaling(reasons=("scaling: none, as given",))
    elif scaling == "series":
        known = _by_series(inputs, "scaling: each series is standardised by itself, as given")
    elif scaling == "robust":
        known = _by_channel(inputs, np.ones(_width(inputs), dtype=bool), "scaling: robust (arcsinh), as given")
    elif scaling == "channel":
        known = _by_channel(inputs, np.zeros(_width(inputs), dtype=bool), "scaling: z-score per channel, as given")
    else:
        known = _automatic(inputs, names)
    known = dataclasses.replace(known, missing=missing)
    return _with_differences(known, inputs) if differences else known


def refitted(known: InputScaling, inputs: Ragged) -> InputScaling:
    """The same way of scaling, with the numbers of other sequences.

    Args:
        known: What `choose` made.
        inputs: The other sequences.

    Example:
        >>> known = choose(Ragged.of([np.array([[0.0], [2.0]])]))
        >>> known.mean, refitted(known, Ragged.of([np.array([[6.0], [8.0]])])).mean
        ((1.0,), (7.0,))
    """
    if known.level_mean:
        made = _by_series(inputs, *known.reasons)
    elif known.mean:
        squashed = np.array(known.spread or [0.0] * _width(inputs)) > 0
        made = _by_channel(inputs, squashed, *known.reasons)
    else:
        made = known
    made = dataclasses.replace(made, missing=known.missing)
    return _with_differences(made, inputs) if known.difference_scale else made


def _with_differences(known: InputScaling, inputs: Ragged) -> InputScaling:
    scales = [_difference_scale(inputs, scaled(known, inputs, channel)) for channel in range(_width(inputs))]
    return dataclasses.replace(known, difference_scale=tuple(scales))


def _automatic(inputs: Ragged, names: Sequence[str]) -> InputScaling:
    range_of_scales = scale_range(inputs)
    if range_of_scales > ORDERS_OF_MAGNITUDE:
        factor, limit = np.exp([range_of_scales, ORDERS_OF_MAGNITUDE])
        reason = f"their scales differ by a factor of about {factor:.0f} (limit {limit:.0f})"
        return _by_series(inputs, f"scaling: each series is standardised by itself: {reason}")
    tails = np.array([kurtosis(_column(inputs, channel)) for channel in range(_width(inputs))])
    heavy = tails > HEAVY_TAILS
    if not heavy.any():
        return _by_channel(inputs, heavy, "scaling: each channel is standardised (z-score)")
    chosen = np.flatnonzero(heavy)
    shown = ", ".join(names[n] if names else str(n) for n in chosen[:SHOWN]) + (", ..." if len(chosen) > SHOWN else "")
    why = f"kurtosis up to {tails.max():.0f}, limit {HEAVY_TAILS:g}"
    return _by_channel(
        inputs, heavy, f"scaling: each channel is standardised, after arcsinh where tails are heavy ({shown}: {why})"
    )


def scale_range(inputs: Ragged) -> float:
    """How much the series differ in scale: deviation over the series of the log of their own deviation.

    Args:
        inputs: The sequences.

    Returns:
        The median over the channels; 0 if there are fewer than two series that are not constant.

    Example:
        >>> series = [np.array([[0.0], [1.0]]), np.array([[0.0], [np.exp(2)]])]
        >>> scale_range(Ragged.of(series))
        1.0
    """
    ranges = []
    for channel in range(_width(inputs)):
        levels = _levels(inputs, channel)
        ranges.append(float(levels.std()) if len(levels) > 1 else 0.0)
    return float(np.median(ranges))


def kurtosis(values: np.ndarray) -> float:  # [N]
    """Fourth moment over squared variance, 3 for a normal distribution; 0 for constant values."""
    centred = values - values.mean() if len(values) else values
    variance = float(np.square(centred).mean()) if len(values) else 0.0
    return float(np.square(np.square(centred)).mean() / variance**2) if variance > 0 else 0.0


def scaled(known: InputScaling, inputs: Ragged, channel: int) -> np.ndarray:  # [steps of all]
    """One channel as the model scales it, with NaN where a value is missing."""
    values = inputs.values[:, channel].astype(np.float64)
    if known.spread and known.spread[channel] > 0:
        values = np.arcsinh((values - known.center[channel]) / known.spread[channel])
    if known.level_mean:
        mean, deviation = _moments(inputs, values)
        places = np.repeat(np.arange(len(inputs)), inputs.lengths)
        return (values - mean[places]) / np.where(deviation > 0, deviation, 1.0)[places]
    values = values - known.mean[channel] if known.mean else values
    return values / known.scale[channel] if known.scale else values


def _by_channel(inputs: Ragged, squashed: np.ndarray, *reasons: str) -> InputScaling:
    """The z-score of each channel, after arcsinh for some of them."""
    if not squashed.any() and not np.isnan(inputs.values).any():
        mean_of_each, scale_of_each = standardisation(inputs.values)  # to the bit as in runs of older versions
        return InputScaling(mean=mean_of_each, scale=scale_of_each, reasons=reasons)
    center, spread, mean, scale = (np.zeros(_width(inputs)) for _ in range(4))
    for channel in range(_width(inputs)):
        values = _column(inputs, channel)
        if squashed[channel]:
            center[channel], spread[channel] = _robust(values)
            if spread[channel] > 0:
                values = np.arcsinh((values - center[channel]) / spread[channel])
        deviation = values.std() if len(values) else 0.0
        mean[channel], scale[channel] = values.mean() if len(values) else 0.0, deviation if deviation > 0 else 1.0
    used = bool((spread > 0).any())
    return InputScaling(
        center=tuple(center.tolist()) if used else (),
        spread=tuple(spread.tolist()) if used else (),
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
        reasons=reasons,
    )


def _by_series(inputs: Ragged, *reasons: str) -> InputScaling:
    levels = [_levels(inputs, channel) for channel in range(_width(inputs))]
    deviations = [float(level.std()) if len(level) else 0.0 for level in levels]
    return InputScaling(
        level_mean=tuple(float(level.mean()) if len(level) else 0.0 for level in levels),
        level_scale=tuple(deviation if deviation > 0 else 1.0 for deviation in deviations),
        reasons=reasons,
    )


def _robust(values: np.ndarray) -> tuple[float, float]:
    """Median, and the distance of the quartiles in deviations of a normal distribution; 0 if values are constant."""
    if not len(values):
        return 0.0, 0.0
    low, median, high = np.percentile(values, [25, 50, 75])
    spread = (high - low) / QUARTILES
    # More than half of the values are equal: the mean distance from them.
    return float(median), float(spread if spread > 0 else np.abs(values - median).mean())


def _width(inputs: Ragged) -> int:
    return int(inputs.values.shape[1])


def _column(inputs: Ragged, channel: int) -> np.ndarray:
    """The values of a channel that are not missing."""
    values = inputs.values[:, channel].astype(np.float64)
    return values[~np.isnan(values)]


def _levels(inputs: Ragged, channel: int) -> np.ndarray:
    """The log of the deviation of each series that is not constant."""
    _, deviation = _moments(inputs, inputs.values[:, channel].astype(np.float64))
    return np.log(deviation[deviation > 0])


def _moments(inputs: Ragged, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # [steps of all] -> [N], [N]
    """Mean and deviation of each series, of the values that are not missing."""
    known = ~np.isnan(values)
    places = np.repeat(np.arange(len(inputs)), inputs.lengths)[known]
    count = np.maximum(np.bincount(places, minlength=len(inputs)), 1)
    mean = np.bincount(places, weights=values[known], minlength=len(inputs)) / count
    square = np.square(values[known] - mean[places])
    return mean, np.sqrt(np.bincount(places, weights=square, minlength=len(inputs)) / count)


def _difference_scale(inputs: Ragged, values: np.ndarray) -> float:
    """The root mean square of the change from step to step, within the series."""
    changes = np.diff(values)
    within = np.ones(len(changes), dtype=bool)
    within[np.cumsum(inputs.lengths)[:-1] - 1] = False
    changes = changes[within & ~np.isnan(changes)]
    size = float(np.sqrt(np.square(changes).mean())) if len(changes) else 0.0
    return size if size > 0 else 1.0
