"""Linear memory: how well past inputs can be decoded from the state, over the lag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.diagnostics import arguments
from autapse.diagnostics.deadline import is_over
from autapse.diagnostics.trajectories import CHUNK, Network, Trajectory, array, states_along

LAGS = 64  # lags by default


@dataclass(frozen=True, eq=False)
class LinearMemory:
    """The share of the variance of x_{t−lag} that a linear map of h_t explains, from `linear_memory`."""

    lags: np.ndarray  # [n]
    r2: np.ndarray  # [n, D], R² on held-out rows, by lag and feature; NaN for a feature that is constant

    @property
    def capacity(self) -> float:
        """Σ R² over the lags and features, with negative ones as 0. For all lags it is at most the number of units."""
        return float(np.clip(np.nan_to_num(self.r2), 0, None).sum())

    def reach(self, share: float = 0.5) -> int:
        """The largest lag at which some feature has R² of at least `share`; −1 if there is none."""
        good = self.lags[(np.nan_to_num(self.r2) >= share).any(1)]
        return int(good.max()) if len(good) else -1


@torch.no_grad()
def linear_memory(
    network: Network,
    x: Any,
    lengths: Any = None,
    layer: int = 0,
    reverse: bool = False,
    lags: Sequence[int] | None = None,
    ridge: float = 1e-6,
) -> LinearMemory:
    """R² of the best linear reading of past inputs from the state, for each lag.

    The map is fitted by least squares on every other sequence, and R² is measured on the rest; with one sequence, on
    the first and the second half of its steps. All lags use the same rows, those that have the longest lag.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input, as the network takes it.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack. The input is that of the layer.
        reverse: the cell of the reverse direction.
        lags: the lags; 0 is the input of the step itself. None: up to 64, evenly spaced from 0 to half of the steps.
        ridge: added to the diagonal of the Gram matrix, as a share of its mean.

    Returns:
        A `LinearMemory`. Time: one forward pass and O(N·S² + N·S·D·lags) for N rows.

    >>> memory = linear_memory(autapse.GRU(1, 16), torch.randn(200, 8, 1), lags=range(20))
    >>> memory.r2.shape, bool(memory.r2[0, 0] > memory.r2[19, 0])
    ((20, 1), True)
    """
    path = states_along(network, x, lengths, layer, reverse)
    chosen = _lags(lags, path.steps)
    checks.number("ridge", ridge, low=0.0)
    states, targets, fitted = _rows(path, chosen)
    if min(int(fitted.sum()), int((~fitted).sum())) < 2:
        rule = f"have two sequences, or enough steps, beyond the lag of {max(chosen)}"
        checks.fail("x", rule, tuple(path.inputs.shape), "Pass smaller lags.")
    center, level = states[fitted].mean(0), targets[fitted].mean(0)
    gram, moments = _products(states[fitted] - center, targets[fitted] - level)
    damping = max(ridge * float(gram.diagonal().mean()), torch.finfo(gram.dtype).tiny)
    weights = torch.linalg.lstsq(gram + damping * torch.eye(len(gram), dtype=gram.dtype), moments, driver="gelsd")[0]
    error = (targets[~fitted] - level - (states[~fitted] - center) @ weights).square().sum(0)
    total = (targets[~fitted] - targets[~fitted].mean(0)).square().sum(0)
    r2 = torch.where(total > 0, 1 - error / total, torch.nan)
    return LinearMemory(np.array(chosen), array(r2.view(len(chosen), -1)))


def _products(A: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """AᵀA and AᵀY, summed over rows that are taken evenly from everywhere, a part at a time."""
    parts = -(-A.numel() // CHUNK)
    gram, moments, done = A.new_zeros(A.shape[1], A.shape[1]), A.new_zeros(A.shape[1], Y.shape[1]), 0
    for n in range(parts):
        if is_over(done, len(A), "rows"):
            break
        rows = slice(n, None, parts)
        gram, moments, done = gram + A[rows].T @ A[rows], moments + A[rows].T @ Y[rows], done + len(A[rows])
    return gram, moments


def _lags(lags: Sequence[int] | None, steps: int) -> list[int]:
    if lags is None:
        return sorted({round(lag) for lag in np.linspace(0, steps // 2, min(LAGS, steps // 2 + 1))})
    return arguments.positions("lags", lags, steps)


def _rows(path: Trajectory, lags: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The states [N, S], the past inputs [N, lags·D], and which rows are fitted [N]."""
    first, count = max(lags), len(path.lengths)
    here = path.running[first:]
    past = torch.stack([path.inputs[first - lag : path.steps - lag] for lag in lags], dim=2)
    steps, sequences = here.nonzero(as_tuple=True)
    fitted = sequences % 2 == 0 if count > 1 else steps < len(here) // 2
    return path.after[first:][here].double(), past[here].flatten(1).double(), fitted
