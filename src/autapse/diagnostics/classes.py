"""Discrimination over time: how well states tell classes apart, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.diagnostics import arguments
from autapse.diagnostics.trajectories import Network, array, states_along


@dataclass(frozen=True, eq=False)
class Discrimination:
    """Mean Euclidean distances between states after each step, from `discrimination`. NaN without such pairs."""

    within: np.ndarray  # [T], over the pairs of two sequences of one class
    between: np.ndarray  # [T], over the pairs of two sequences of different classes

    @property
    def ratio(self) -> np.ndarray:
        """Within over between, [T]: 1 if the states say nothing about the class, 0 if classes are points."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.within / self.between


@torch.no_grad()
def discrimination(
    network: Network,
    x: Any,
    classes: Any,
    lengths: Any = None,
    layer: int = 0,
    reverse: bool = False,
    part: int = 0,
) -> Discrimination:
    """The ratio of distances within classes to distances between classes, at each step (ERNN paper, Fig. 3b).

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input, as the network takes it.
        classes: [B], the class of each sequence.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.
        reverse: the cell of the reverse direction.
        part: which tensor of the state: 0 is h, 1 is c of an LSTM.

    Returns:
        A `Discrimination`. Time: one forward pass and O(T·B²·H).

    >>> distances = discrimination(autapse.GRU(3, 8), torch.randn(20, 6, 3), classes=[0, 0, 0, 1, 1, 1])
    >>> distances.ratio.shape
    (20,)
    """
    path = states_along(network, x, lengths, layer, reverse)
    labels = arguments.tensor("classes", classes)
    if tuple(labels.shape) != (len(path.lengths),):
        rule = f"have one class per sequence, shape ({len(path.lengths)},)"
        checks.fail("classes", rule, tuple(labels.shape), kind=checks.ShapeError)
    if len(labels.unique()) < 2:
        checks.fail("classes", "have at least two classes", labels.unique().tolist())
    same = labels[:, None] == labels
    other = ~torch.eye(len(labels), dtype=torch.bool)
    states = path.own(path.after, part).double()
    rows = [
        _means(h[here], same[here][:, here], other[here][:, here]) for h, here in zip(states, path.running, strict=True)
    ]
    within, between = zip(*rows, strict=True)
    return Discrimination(array(torch.stack(within)), array(torch.stack(between)))


def _means(h: Tensor, same: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    # Not by the square of sums, which loses the small distances.
    distances = torch.cdist(h, h, compute_mode="donot_use_mm_for_euclid_dist")
    return distances[same & other].mean(), distances[~same].mean()
