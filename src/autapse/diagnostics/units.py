"""Saturation and dead units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.diagnostics.gates import gates_of, has_gates
from autapse.diagnostics.trajectories import Network, array, recurrent_of, states_along
from autapse.forms import ACTIVATIONS, Leaky


@dataclass(frozen=True, eq=False)
class Saturation:
    """How much each of H units is used, from `saturation`: shares of all steps of all sequences.

    `flat`, `carry_open` and `carry_closed` are None for a network without a step of the form H ∘ T + h ∘ C.
    """

    mean: np.ndarray  # [H], the mean of the state
    deviation: np.ndarray  # [H], its standard deviation
    dead: np.ndarray  # [H] bool, units that hardly vary: less than 10⁻³ of the unit that varies most
    flat: np.ndarray | None  # [H], the share of steps where the slope of the activation is below the threshold
    carry_open: np.ndarray | None  # [H], the share of steps where the carry gate is above 1 − threshold
    carry_closed: np.ndarray | None  # [H], the share of steps where it is below the threshold


@torch.no_grad()
def saturation(
    network: Network,
    x: Any,
    lengths: Any = None,
    layer: int = 0,
    reverse: bool = False,
    threshold: float = 0.05,
) -> Saturation:
    """Which units are dead, which activations are flat, and which carry gates are open or closed.

    Where an activation is flat (a saturated tanh, a ReLU at 0), no gradient passes it.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input, as the network takes it.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.
        reverse: the cell of the reverse direction.
        threshold: below this share of the largest slope an activation counts as flat; and the same for gates.

    Returns:
        A `Saturation`. Time: two forward passes.

    >>> units = saturation(autapse.RNN(3, 8), 100 * torch.randn(20, 4, 3))
    >>> bool(units.flat.mean() > 0.9), bool(units.dead.any())
    (True, False)
    """
    checks.number("threshold", threshold, above=0.0, high=0.5)
    path = states_along(network, x, lengths, layer, reverse)
    states = path.own(path.after)[path.running].double()
    deviation = states.std(0, correction=0)
    dead = deviation <= 1e-3 * deviation.max()
    if recurrent_of(network).looks_ahead or not has_gates(path):
        return Saturation(array(states.mean(0)), array(deviation), array(dead), None, None, None)
    candidate, _, carry = (part[path.running].double() for part in gates_of(path))
    where = (_slope(path.form, candidate) < threshold, carry > 1 - threshold, carry < threshold)
    flat, is_open, is_closed = (array(each.double().mean(0)) for each in where)
    return Saturation(array(states.mean(0)), array(deviation), array(dead), flat, is_open, is_closed)


def _slope(form: Any, y: Tensor) -> Tensor:
    """The slope of the activation as a share of its largest one."""
    if not isinstance(form, Leaky):
        return ACTIVATIONS["tanh"].slope(y)
    return form._slope(y) / (0.25 if form.activation == "sigmoid" else 1.0)
