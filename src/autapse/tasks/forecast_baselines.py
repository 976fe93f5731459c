"""Forecasts without a network: the last value, the last season, and a straight line through the window."""

from __future__ import annotations

import numpy as np

MOST_ENTRIES = 20_000_000  # of the matrix of least squares; above, every second, third, ... window is used
ILL = 1e10  # condition number of the normal equations above which they get a ridge
RIDGE = 1e-6  # relative to the mean of their diagonal


def naive(windows: np.ndarray, horizon: int, targets: int) -> np.ndarray:  # [N, W, D] -> [N, H, K]
    """The last value of the first `targets` channels, for every step of the horizon."""
    return np.repeat(windows[:, -1:, :targets], horizon, axis=1)


def seasonal_naive(windows: np.ndarray, horizon: int, targets: int, season: int) -> np.ndarray:  # -> [N, H, K]
    """The value one season before, or two seasons, ... for steps that are further away.

    Args:
        windows: [N, W, D]; the window must not be shorter than the season.
        horizon: Steps to forecast.
        targets: The number of channels to forecast; they come first.
        season: Steps after which a series repeats.

    Returns:
        [N, H, K]

    Example:
        >>> seasonal_naive(np.array([[[1.0], [2.0], [3.0], [4.0]]]), 5, 1, season=3).ravel()
        array([2., 3., 4., 2., 3.])
    """
    ahead = np.arange(horizon) % season
    return windows[:, windows.shape[1] - season + ahead, :targets]


def scaled_error_unit(series: np.ndarray, season: int) -> np.ndarray:  # [T, K] -> [K]
    """The denominator of MASE: the mean absolute error of the seasonal-naive forecast within the training part.

    A channel that never changes has the unit 1.

    Example:
        >>> scaled_error_unit(np.array([[1.0], [3.0], [2.0]]), season=1)
        array([1.5])
    """
    values = np.asarray(series, dtype=np.float64)
    lag = season if len(values) > season else 1
    unit = np.abs(values[lag:] - values[:-lag]).mean(axis=0) if len(values) > 1 else np.zeros(values.shape[1])
    return np.where(unit > 0, unit, 1.0)


class StraightLine:
    """Least squares from all values of a window to all values to forecast, with a constant.

    Args:
        windows: [N, W, D] the training windows.
        targets: [N, H, K] what followed.
    """

    def __init__(self, windows: np.ndarray, targets: np.ndarray) -> None:
        every = -(-windows.size // MOST_ENTRIES)
        flat = windows[::every].reshape(len(windows[::every]), -1).astype(np.float64)
        wanted = targets[::every].reshape(len(flat), -1).astype(np.float64)
        self.shape = targets.shape[1:]
        self.center, self.offset = flat.mean(axis=0), wanted.mean(axis=0)
        deviation = flat.std(axis=0)
        self.scale = np.where(deviation > 0, deviation, 1.0)
        self.weight = _solved((flat - self.center) / self.scale, wanted - self.offset)

    def predict(self, windows: np.ndarray) -> np.ndarray:  # [N, W, D] -> [N, H, K]
        """The forecast of each window."""
        flat = (windows.reshape(len(windows), -1).astype(np.float64) - self.center) / self.scale
        return (flat @ self.weight + self.offset).reshape(len(windows), *self.shape)


def _solved(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Least squares, with a small ridge if the columns depend on one another."""
    normal = matrix.T @ matrix
    sizes = np.linalg.eigvalsh(normal)
    if sizes[0] <= sizes[-1] / ILL:
        normal = normal + RIDGE * max(float(np.trace(normal)), 1.0) / len(normal) * np.eye(len(normal))
    return np.linalg.solve(normal, matrix.T @ wanted)
