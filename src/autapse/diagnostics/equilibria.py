"""Equilibria of the ERNN paper: Φ(α), what U learns, residuals of the inner steps, and learned η."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.cells.equilibrium import EquilibriumRule
from autapse.cells.equilibrium_tanh import equilibrium
from autapse.cells.ernn import ERNN
from autapse.cells.inner_steps import rate_at
from autapse.diagnostics import arguments
from autapse.diagnostics.contraction import equilibrium_of, single_rule, step_norm
from autapse.diagnostics.trajectories import Network, array, cell_of
from autapse.sequences.lengths import running


@dataclass(frozen=True, eq=False)
class PhiCurve:
    """The equilibrium h = Φ(α) of h = tanh(h + α), from `phi_curve`."""

    alpha: np.ndarray  # [n]
    value: np.ndarray  # [n], Φ(α)
    slope: np.ndarray  # [n], dΦ/dα = (1 − Φ²)/Φ²; infinite at α = 0


def phi_curve(alpha: Sequence[float] | np.ndarray | None = None) -> PhiCurve:
    """Φ(α) and its derivative (ERNN paper, Fig. 5).

    Args:
        alpha: the values of α; by default 401 values from −2 to 2.

    Returns:
        A `PhiCurve`. Time: a few Newton steps for each value.

    >>> curve = phi_curve([-1.0, 1.0])
    >>> curve.value.round(4).tolist()
    [-0.9612, 0.9612]
    """
    values = np.linspace(-2, 2, 401) if alpha is None else array(arguments.tensor("alpha", alpha, torch.float64))
    if values.ndim != 1 or not np.isfinite(values).all():
        checks.fail("alpha", "be a list of finite numbers", checks.brief(values))
    h = equilibrium(torch.from_numpy(values)[:, None])[0][:, 0].numpy()
    with np.errstate(divide="ignore"):
        return PhiCurve(values, h, (1 - h**2) / h**2)


@dataclass(frozen=True, eq=False)
class Alignment:
    """What the matrix U of an equilibrium has learned, from `alignment`, over H units."""

    eigenvalues: np.ndarray  # [H] complex, those of I + U, largest modulus first
    singular_values: np.ndarray  # [H], those of I + U, largest first
    excitation: np.ndarray  # [H], the sum of the positive entries of U that each unit reads
    inhibition: np.ndarray  # [H], the sum of its negative entries
    self_feedback: np.ndarray  # [H], the diagonal of U: the autapse of each unit


@torch.no_grad()
def alignment(network: Network | EquilibriumRule | ERNN, layer: int = 0) -> Alignment:
    """The spectrum of I + U, and the excitation and inhibition of U (ERNN paper, section 3.4).

    Args:
        network: an `ERNN` or `EquilibriumLinear`, as a layer, a cell, or a model with one.
        layer: which layer of a stack.

    Returns:
        An `Alignment`. Time: O(H³).

    >>> maps = alignment(autapse.ERNN(3, 8))  # U starts at 0
    >>> bool((maps.singular_values == 1).all())
    True
    """
    cell = cell_of(network, layer)
    U = getattr(cell, "weight_align", None)
    if U is None:
        rule = "have an alignment matrix U, as ERNN and EquilibriumLinear"
        checks.fail("network", rule, type(cell).__name__, kind=checks.KindError)
    U = U.double()
    aligned = torch.eye(len(U), dtype=U.dtype) + U
    eigenvalues = np.linalg.eigvals(aligned.numpy())
    order = np.argsort(-np.abs(eigenvalues))
    parts = (torch.linalg.svdvals(aligned), U.clamp(min=0).sum(1), U.clamp(max=0).sum(1), U.diagonal())
    return Alignment(eigenvalues[order], *map(array, parts))


@dataclass(frozen=True, eq=False)
class InnerResiduals:
    """The way of z⁽ᵏ⁾ to the equilibrium z* at each step, from `inner_residuals`. K inner steps; NaN past an end."""

    residual: np.ndarray  # [K + 1, T, B], ‖f(z⁽ᵏ⁾)‖ with f(z) = φ(z) − z
    distance: np.ndarray  # [K + 1, T, B], ‖f′(z*)·(z⁽ᵏ⁾ − z*)‖, Lemma 1's norm of the error
    bound: np.ndarray  # [K, T, B], ‖I + η·f′(z⁽ᵏ⁾)‖₂ of Theorem 1
    converged: np.ndarray  # [T, B] bool, whether z* was found

    @property
    def ratio(self) -> np.ndarray:
        """The factor by which each inner step changes the error in Lemma 1's norm, [K, T, B]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.distance[1:] / self.distance[:-1]


@torch.no_grad()
def inner_residuals(
    rule: EquilibriumRule | ERNN | Network,
    x: Any,
    h0: Tensor | None = None,
    eta: float | None = None,
    iterations: int | None = None,
    lengths: Any = None,
) -> InnerResiduals:
    """The residual and the error of z⁽ᵏ⁺¹⁾ = z⁽ᵏ⁾ + η·f(z⁽ᵏ⁾) after each inner step, beside the bound of Theorem 1.

    `autapse.diagnostics.contraction.contraction` has the largest values only.

    Args:
        rule: an equilibrium rule, an ERNN cell, a layer of one such cell, or a model with one.
        x: the input, [T, B, D], or [B, T, D] for a layer with batch_first and for a model.
        h0: the state before the first step, [B, H]; zeros by default.
        eta: η of every inner step. None: the learned η of a network that has them, and 1 for others.
        iterations: K; None is the network's own number of inner steps, and 10 for others.
        lengths: [B], the length of each sequence, if they differ.

    Returns:
        An `InnerResiduals`. Time: O(T·K·B·H³): 30 s on one busy core for 784 steps of an ERNN with K = 1 and 128 units
        on 32 sequences. Pass fewer sequences for more.

    >>> residuals = inner_residuals(autapse.ImplicitMidpoint(3, 8, step=0.5), torch.randn(6, 2, 3), iterations=4)
    >>> bool((residuals.ratio[0] < 1).all())
    True
    """
    cell, x, known = single_rule(rule, x, lengths)
    learned = eta is None and cell.inner_steps is not None
    rates: Any = cell.rates() if learned else checks.number("eta", 1.0 if eta is None else eta)
    count = (cell.inner_steps if learned and cell.inner_steps else 10) if iterations is None else iterations
    checks.integer("iterations", count, minimum=1)
    u, weights = cell.drive(x), cell.prepare()
    previous = arguments.first_state(h0, u[0], cell.hidden_size)
    rows = []
    for t, u_t in enumerate(u):
        goal, converged, following = equilibrium_of(cell, previous, u_t, weights, t)
        etas = [rate_at(rates, t, k) for k in range(count)]
        rows.append((*_way(cell, previous, u_t, weights, etas, goal), converged))
        previous = following
    *numbers, converged = (torch.stack(column, dim=-2) for column in zip(*rows, strict=True))
    past = ~running(known, len(x))
    residual, distance, bound = (array(n.masked_fill(past, torch.nan)) for n in numbers)
    return InnerResiduals(residual, distance, bound, array(converged & ~past))


def _way(
    cell: EquilibriumRule | ERNN, previous: Tensor, u: Tensor, weights: Any, etas: list[Any], goal: Tensor
) -> tuple[Tensor, Tensor, Tensor]:  # [K + 1, B], [K + 1, B], [K, B]
    slope = _slope(cell, goal, previous, u, weights)
    z, points, bounds = previous, [previous], []
    for eta in etas:
        bounds.append(step_norm(cell, z, previous, u, weights, eta))
        z = z + eta * (cell.phi(z, previous, u, weights) - z)
        points.append(z)
    residual = torch.stack([(cell.phi(z, previous, u, weights) - z).norm(dim=1) for z in points])
    distance = torch.stack([(slope @ (z - goal).unsqueeze(2)).squeeze(2).norm(dim=1) for z in points])
    return residual, distance, torch.stack(bounds)


def _slope(cell: EquilibriumRule | ERNN, z: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
    """f′(z) = ∂φ/∂z − I, [B, H, H]."""
    feedback = cell.feedback(z, previous, u, weights)
    return (torch.diag_embed(feedback) if feedback.dim() == 2 else feedback) - _identity(z)


def _identity(z: Tensor) -> Tensor:
    return torch.eye(z.shape[1], dtype=z.dtype, device=z.device)


@dataclass(frozen=True, eq=False)
class LearnedRates:
    """The learned η over time, from `learned_rates`."""

    eta: np.ndarray  # [T, K], by position and inner step; [1, 1] for one η
    slope: np.ndarray  # [K], of the least-squares line over the positions, per step
    intercept: np.ndarray  # [K], the line at position 0


@torch.no_grad()
def learned_rates(network: Network | EquilibriumRule | ERNN, layer: int = 0) -> LearnedRates:
    """The learned η of inner steps, with its least-squares line over time (ERNN paper, Fig. 9).

    Args:
        network: an `ERNN`, or an equilibrium rule with `inner_steps`, as a layer, a cell, or a model with one.
        layer: which layer of a stack.

    Returns:
        A `LearnedRates`. Time: none.

    >>> learned_rates(autapse.ERNN(3, 8, inner_steps=2, eta="per_step", max_length=50)).eta.shape
    (50, 2)
    """
    cell = cell_of(network, layer)
    if not isinstance(cell, EquilibriumRule | ERNN) or cell.inner_steps is None:
        checks.fail("network", "have learned inner steps, as ERNN", type(cell).__name__, kind=checks.KindError)
    eta = array(torch.as_tensor(cell.rates(), dtype=torch.float64))
    eta = eta.reshape(1, 1) if eta.ndim == 0 else eta
    if len(eta) == 1:
        return LearnedRates(eta, np.zeros(eta.shape[1]), eta[0])
    slope, intercept = np.polyfit(np.arange(len(eta)), eta, 1)
    return LearnedRates(eta, slope, intercept)
