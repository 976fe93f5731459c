"""The season of a series: the number of steps after which it repeats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAST = 0.2  # autocorrelation of a season
HIGH = 0.5  # the same if it is seen once only
NOISE = 4.0  # times the standard error of the autocorrelation of noise
NEAR = 0.8  # a shorter season counts if its peak has this share of the highest one: multiples repeat too
LONGEST = 1000


def find_season(series: Sequence[np.ndarray], longest: int = LONGEST) -> int:
    """The season with the highest autocorrelation.

    Args:
        series: [steps] each, without its test part.
        longest: The longest season to look for.

    Returns:
        The number of steps; 1 if there is no season. A season must fit into a third of the series.

    Example:
        >>> find_season([np.sin(2 * np.pi * np.arange(100) / 12)])
        12
    """
    most = min(longest, LONGEST, max((len(one) for one in series), default=0) // 3)
    if most < 2:
        return 1
    long = [np.asarray(one, dtype=np.float64) for one in series if len(one) >= 3 * most]
    season = _peak([autocorrelation(one, most) for one in long], most, 1)
    # Level shifts hide a season. Changes from step to step show it, if the largest ones are clipped.
    return season if season > 1 else _peak([autocorrelation(_clipped(np.diff(one)), most) for one in long], most, 2)


def _peak(curves: list[np.ndarray], most: int, first: int) -> int:
    """The first of the highest peaks of the mean autocorrelation; 1 if it has none.

    The peak at lag 0 ends at lag `first` or later. Noise makes neighbouring changes look opposite, at lag 1.
    """
    curves = [curve for curve in curves if np.isfinite(curve).all()]
    if not curves:
        return 1
    curve = np.mean(curves, axis=0)
    below = first + np.flatnonzero(curve[first:] < LEAST / 2)
    lags = np.arange(max(below[0], 2), most) if len(below) else np.arange(0)
    noise = NOISE / np.sqrt(3 * most * len(curves))
    peaks = [lag for lag in lags if curve[lag] >= max(curve[lag - 1], curve[lag + 1], LEAST, noise)]
    # A season repeats again. Where that is not visible, the peak must be high.
    peaks = [lag for lag in peaks if curve[lag] >= HIGH or (2 * lag <= most and curve[2 * lag] >= curve[lag] / 2)]
    if not peaks:
        return 1
    weight = curve * (1 - np.arange(most + 1) / (3 * most))  # fewer pairs of values have a large distance
    highest = max(weight[lag] for lag in peaks)
    near = next(lag for lag in peaks if weight[lag] >= NEAR * highest)
    # The peaks at its multiples say more exactly where it is.
    width = max(1, near // 8)
    count = most // (near + width)
    close = range(max(near - width, 2), near + width + 1) if count > 1 else [near]
    return int(max(close, key=lambda lag: curve[lag * np.arange(1, count + 1)].sum()))


def _clipped(values: np.ndarray) -> np.ndarray:
    """The values without outliers: at most three typical deviations from the median."""
    center = np.median(values)
    limit = 3 * 1.4826 * np.median(np.abs(values - center))
    return np.clip(values, center - limit, center + limit)


def autocorrelation(values: np.ndarray, lags: int) -> np.ndarray:  # [steps] -> [lags + 1]
    """The autocorrelation without the linear trend, at the lags 0 to `lags`; NaN for a straight line."""
    time = np.linspace(-1, 1, len(values))
    scaled = np.asarray(values, dtype=np.float64) - np.mean(values, dtype=np.float64)
    rest = scaled - time * (scaled @ time) / (time @ time)
    if np.abs(rest).max() <= 1e-6 * max(np.abs(values).max(), 1e-30):
        return np.full(lags + 1, np.nan)
    spectrum = np.fft.rfft(rest, 2 * len(rest))
    sums = np.fft.irfft(np.abs(spectrum) ** 2)[: lags + 1]
    pairs = len(rest) - np.arange(lags + 1)
    return (sums / pairs) / (sums[0] / len(rest))
