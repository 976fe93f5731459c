"""Networks that are steps of a differential equation: their sensitivity, and the order of their steps."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Antisymmetric, Cell, ImplicitMidpoint
from autapse.diagnostics import arguments
from autapse.diagnostics.trajectories import Network, array, cell_of, trajectory
from autapse.forms.integrated import Integrated

FINER = 16  # steps of the reference per smallest step of the network
RULE = "be a step of a differential equation: Antisymmetric or ImplicitMidpoint"


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A(t) = ∂h(t)/∂h(0) of the network and of its linear equation, from `sensitivity`. NaN past an end."""

    times: np.ndarray  # [T + 1], t = n·ε
    measured: np.ndarray  # [T + 1, B], ‖A(t)‖/√S with the Frobenius norm
    exponential: np.ndarray  # [T + 1, B], the same of e^{J·t}, with the Jacobian J at the start
    error: np.ndarray  # [T + 1, B], ‖A(t) − e^{J·t}‖ / ‖e^{J·t}‖
    eigenvalues: np.ndarray  # [B, S] complex, those of J


@torch.no_grad()
def sensitivity(network: Network, x: Any, lengths: Any = None, layer: int = 0) -> Sensitivity:
    """Equations 6 and 7 of the AntisymmetricRNN paper: ∂h(t)/∂h(0) of the network, beside e^{J·t}.

    The paper takes J as constant. The difference has two parts: J changes along the trajectory, and the step ε is not
    infinitely small.

    Args:
        network: a layer of `Antisymmetric` or `ImplicitMidpoint`, or a model with one.
        x: the input, as the network takes it.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.

    Returns:
        A `Sensitivity`. Time: O(T·B·S³).

    >>> errors = sensitivity(autapse.Antisymmetric(3, 8, step=0.01), torch.zeros(100, 2, 3))
    >>> bool((errors.error < 0.05).all())
    True
    """
    path = trajectory(network, x, lengths, layer)
    path.check_dense()
    step = _step_size(path.cell)
    J = rate_jacobian(path.cell, path.drive[0], path.before[0])
    once = torch.linalg.matrix_exp(step * J)
    measured = torch.eye(path.units, dtype=J.dtype).expand_as(J)
    exponential, rows = measured, [_compared(measured, measured)]
    for _, jacobian in path.forwards():
        measured, exponential = jacobian @ measured, once @ exponential
        rows.append(_compared(measured, exponential))
    beyond = torch.arange(path.steps + 1)[:, None] > path.lengths
    columns = (torch.stack(column).masked_fill(beyond, math.nan) for column in zip(*rows, strict=True))
    size, expected, error = map(array, columns)
    times = step * np.arange(path.steps + 1)
    return Sensitivity(times, size, expected, error, array(torch.linalg.eigvals(J)))


@dataclass(frozen=True, eq=False)
class ConvergenceOrder:
    """Errors of the steps of a network at one time, from `convergence_order`."""

    steps: np.ndarray  # [n], the sizes ε of the steps
    errors: np.ndarray  # [n, B], ‖h(t) − exact‖
    order: float  # p of the line error ∝ εᵖ through all points


@torch.no_grad()
def convergence_order(
    network: Network | Cell, x: Tensor, h0: Tensor | None = None, time: float = 1.0, halvings: int = 4
) -> ConvergenceOrder:
    """How the error of a network shrinks with its step size: order 1 for forward Euler, 2 for Heun and the midpoint.

    The exact solution is computed by the classical Runge–Kutta method with much smaller steps, in float64.

    Args:
        network: a cell `Antisymmetric` or `ImplicitMidpoint`, a layer of one, or a model with one.
        x: [B, D], the input, which is constant in time.
        h0: [B, H], the state at time 0; zeros by default.
        time: the time at which states are compared.
        halvings: how often the step size of the network is halved.

    Returns:
        A `ConvergenceOrder`. Time: a few thousand steps.

    >>> cell = autapse.cells.Antisymmetric(2, 6, step=0.1)
    >>> round(convergence_order(cell, torch.ones(1, 2)).order, 1)
    1.0
    """
    cell = cell_of(network)
    first = _step_size(cell)
    time = checks.number("time", time, above=0.0)
    halvings = checks.integer("halvings", halvings, minimum=1, maximum=12)
    x = arguments.tensor("x", x)
    if x.dim() != 2 or x.shape[1] != cell.input_size:
        rule = f"have shape (B, input_size) with input_size = {cell.input_size}"
        checks.fail("x", rule, tuple(x.shape), kind=checks.ShapeError)
    cell = copy.deepcopy(cell).double()
    u, counts = cell.drive(x.double()), [max(1, round(time / first)) * 2**n for n in range(halvings + 1)]
    h = arguments.first_state(h0, u, cell.hidden_size)
    exact = _runge_kutta(cell, u, h, time, FINER * counts[-1])
    errors = torch.stack([(_integrated(cell, u, h, time, count) - exact).norm(dim=1) for count in counts])
    sizes = time / np.array(counts)
    mean = np.log(np.maximum(array(errors), np.finfo(float).tiny)).mean(1)
    return ConvergenceOrder(sizes, array(errors), float(np.polyfit(np.log(sizes), mean, 1)[0]))


def rate(cell: Any, u: Tensor, y: Tensor, weights: Any) -> Tensor:
    """The right side f(y) of dy/dt = f(y), [B, S]."""
    if isinstance(cell, ImplicitMidpoint):
        return cell.rate(y, u, weights)
    if isinstance(weights, Integrated):
        return weights._rate(u, y)[0]
    return (cell.step(u, (y,), weights, 0)[0] - y) / cell.step_size


def rate_jacobian(cell: Any, u: Tensor, y: Tensor) -> Tensor:  # [B, S, S]
    """∂f/∂y, by automatic differentiation."""
    weights = cell.prepare()
    # Rows do not interact, so the sum over the batch has each row's own Jacobian.
    each = torch.autograd.functional.jacobian(lambda y: rate(cell, u, y, weights).sum(0), y)
    return each.transpose(0, 1)


def _step_size(cell: Any) -> float:
    if not isinstance(cell, Antisymmetric | ImplicitMidpoint):
        checks.fail("network", RULE, type(cell).__name__, kind=checks.KindError)
    return cell.step_size


def _compared(measured: Tensor, exponential: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    scale = math.sqrt(measured.shape[-1])
    size, expected, error = (m.flatten(1).norm(dim=1) for m in (measured, exponential, measured - exponential))
    return size / scale, expected / scale, error / expected


def _integrated(cell: Any, u: Tensor, h: Tensor, time: float, count: int) -> Tensor:
    """The state after `count` steps of the network, with its step size set to time / count."""
    cell = copy.copy(cell)
    cell.step_size = time / count
    weights = cell.prepare()
    for _ in range(count):
        (h,) = cell.step(u, (h,), weights, 0)
    return h


def _runge_kutta(cell: Any, u: Tensor, y: Tensor, time: float, count: int) -> Tensor:
    weights, step = cell.prepare(), time / count
    for _ in range(count):
        k1 = rate(cell, u, y, weights)
        k2 = rate(cell, u, y + step / 2 * k1, weights)
        k3 = rate(cell, u, y + step / 2 * k2, weights)
        k4 = rate(cell, u, y + step * k3, weights)
        y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y
