"""Iterative estimation: whether every state of a network is an estimate of its last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse.diagnostics.trajectories import Network, array, states_along


@dataclass(frozen=True, eq=False)
class IterativeEstimation:
    """Differences of states, from `iterative_estimation`, over T steps and H units.

    Means and variances are over the sequences that have a step, and over units where there is no axis of units.
    """

    to_end: np.ndarray  # [T], the mean of h_t − h_T (equation 1), T the end of each sequence
    to_end_variance: np.ndarray  # [T]
    change: np.ndarray  # [T], the mean of h_t − h_{t−1} (equation 3)
    change_variance: np.ndarray  # [T]
    to_end_units: np.ndarray  # [T, H], `to_end` of each unit
    change_units: np.ndarray  # [T, H], `change` of each unit
    residual: np.ndarray  # [T], the mean over sequences of ‖h_t − h_{t−1}‖ / ‖h_T − h_0‖

    def growth(self, last: int = 200) -> float:
        """The mean variance of h_t − h_{t−1} over the `last` steps, as a multiple of that of the steps before."""
        late, early = self.change_variance[-last:], self.change_variance[:-last]
        return float(late.mean() / early.mean()) if len(early) and early.mean() else float("nan")


@torch.no_grad()
def iterative_estimation(
    network: Network, x: Any, lengths: Any = None, layer: int = 0, reverse: bool = False, part: int = 0
) -> IterativeEstimation:
    """Equations 1 and 3 of the RIN paper, measured: the average estimation error of h_t − h_T and of h_t − h_{t−1}.

    Under the view of iterative estimation both are zero on average: the network refines one set of features.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input, as the network takes it. The paper takes 128 sequences.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.
        reverse: the cell of the reverse direction.
        part: which tensor of the state: 0 is h, 1 is c of an LSTM.

    Returns:
        An `IterativeEstimation`. Time: one forward pass.

    >>> estimation = iterative_estimation(autapse.RIN(3, 8), torch.randn(30, 16, 3))
    >>> estimation.to_end.shape, float(estimation.to_end[-1])
    ((30,), 0.0)
    """
    path = states_along(network, x, lengths, layer, reverse)
    before, after = (path.own(states, part).double() for states in (path.before, path.after))
    some = path.lengths > 0
    last = after[(path.lengths - 1).clamp(min=0), torch.arange(len(path.lengths))]
    to_end, change = after - last, after - before
    size = (last - before[0]).norm(dim=1)
    share = torch.where(size > 0, change.norm(dim=2) / size, 0.0)
    exists = path.running[:, some]
    results = [_moments(difference[:, some], exists) for difference in (to_end, change)]
    (mean, variance, units), (step, step_variance, step_units) = results
    residual = (share[:, some] * exists).sum(1) / exists.sum(1)
    return IterativeEstimation(*map(array, (mean, variance, step, step_variance, units, step_units, residual)))


def _moments(values: Tensor, exists: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # [T, B, H] -> [T], [T], [T, H]
    weight = (exists / exists.sum(1, keepdim=True))[:, :, None].to(values)
    units = (values * weight).sum(1)
    mean = units.mean(1)
    variance = ((values - mean[:, None, None]).square() * weight).sum(1).mean(1)
    return mean, variance, units
