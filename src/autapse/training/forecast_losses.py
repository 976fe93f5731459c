"""The loss and the score of forecasts. Targets are [B, H + 1, K]; their last row is the size of a typical error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autapse.tasks.forecast import Forecasting

Loss = Callable[[Tensor, Tensor], Tensor]


def forecast_losses(task: Forecasting) -> tuple[Loss, Loss]:
    """The training loss and the score of a task, each a sum over the windows.

    The loss is in units of the typical error of each series, so that all series count the same: half the squared error
    of the forecast, and the pinball loss of the quantiles; or the likelihood of a Gaussian. The score is the squared
    error in the unit of the data.
    """
    levels: Any = task.levels if task.intervals == "quantile" else ()
    gaussian = task.intervals == "gaussian"

    def loss(output: Tensor, target: Tensor) -> Tensor:  # [B, h, K, 1 + extra]
        wanted, unit = target[:, : output.shape[1]], target[:, -1:]
        error = (wanted - output[..., 0]) / unit
        if gaussian and output.shape[-1] > 1:
            deviation = output[..., 1] / unit
            each = 0.5 * (error / deviation).square() + deviation.log()
        else:
            each = 0.5 * error.square()
            if output.shape[-1] > 1:
                each = each + pinball((wanted[..., None] - output[..., 1:]) / unit[..., None], levels)
        return each.mean((1, 2)).sum()

    return loss, squared_error


def pinball(error: Tensor, levels: tuple[float, ...]) -> Tensor:  # [..., 2 * levels] -> [...]
    """The mean pinball loss of the lower and the upper limits of intervals.

    Args:
        error: value − limit; first the lower limits, then the upper ones.
        levels: the share of values that each interval should contain.

    >>> round(float(pinball(torch.tensor([1.0, -2.0]), (0.8,))), 6)
    0.15
    """
    shares = error.new_tensor([*((1 - level) / 2 for level in levels), *((1 + level) / 2 for level in levels)])
    return torch.maximum(shares * error, (shares - 1) * error).mean(-1)


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """The mean squared error of each window in the unit of the data, summed over the windows."""
    return (output[..., 0] - target[:, : output.shape[1]]).square().mean((1, 2)).sum()
