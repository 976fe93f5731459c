"""Whether the condition of the ERNN paper's Theorem 1 holds on data, and the contraction that is measured there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.equilibrium import EquilibriumRule, newton
from autapse.cells.ernn import ERNN
from autapse.cells.inner_steps import rate_at
from autapse.diagnostics import arguments
from autapse.diagnostics.trajectories import Network, cell_of, layer_input
from autapse.sequences.lengths import checked_lengths, running
from autapse.solve.step_system import StepSystem

FINE = 1e-9  # part of the first residual; ratios of smaller ones are ratios of roundings
RTOL = 1e-6  # relative residual of the equilibrium of a network that takes learned steps


@dataclass(frozen=True)
class Contraction:
    """What `contraction` measured at each step of each sequence. Tensors are detached, [T, B] each; NaN past an end."""

    eta: float | Tensor  # a number, or the learned η, [] or [max_length, K]
    norm: Tensor  # the largest ‖I + η·f′‖₂ over the iterates
    settled: Tensor  # ‖I + η·f′‖₂ at the equilibrium: the linear rate near it is at most this
    ratio: Tensor  # the largest ‖f(z⁽ᵏ⁺¹⁾)‖ / ‖f(z⁽ᵏ⁾)‖ that was measured
    residual: Tensor  # ‖f‖ of the last iterate over that of the first
    converged: Tensor  # bool, whether the equilibrium itself was found

    @property
    def holds(self) -> Tensor:
        """Whether ‖I + η·f′‖₂ < 1 at every iterate and at the equilibrium, [T, B] bool."""
        return (self.norm < 1) & (self.settled < 1)

    def words(self) -> str:
        """One line: where the condition holds, and what was measured."""
        known = ~self.norm.isnan()
        held, count = int(self.holds.sum()), int(known.sum())
        eta = "η" if isinstance(self.eta, Tensor) else f"{self.eta:g}"
        return (
            f"‖I + {eta}·f′‖ < 1 at {held} of {count} steps, largest {float(self.norm[known].max()):.3g}; "
            f"residuals fell by {float(self.ratio[known].max()):.3g} at worst"
        )


@torch.no_grad()
def contraction(
    rule: EquilibriumRule | ERNN | Network,
    x: Any,  # [T, B, D], or [B, T, D] for a layer with batch_first
    h0: Tensor | None = None,  # [B, H], or [1, B, H]
    eta: float | None = None,
    iterations: int | None = None,
    lengths: Any = None,
) -> Contraction:
    """Theorem 1 of the ERNN paper, checked: ‖I + η·f′(z⁽ᵏ⁾)‖ < 1 for all k, with f(z) = φ(z, h_{t−1}, x_t) − z.

    Under it z⁽ᵏ⁺¹⁾ = z⁽ᵏ⁾ + η·f(z⁽ᵏ⁾) converges to the equilibrium, linearly, from near enough. Here that iteration
    runs from z⁽⁰⁾ = h_{t−1} at each step, along the states that the network itself computes. The norm is the largest
    singular value of (1 − η)·I + η·∂φ/∂h. With η = 1 it says whether φ itself contracts.

    Args:
        rule: an equilibrium rule, an ERNN cell, a layer of one such cell, or a model with one.
        x: the input, [T, B, D], or [B, T, D] for a layer with batch_first and for a model.
        h0: the state before the first step, [B, H] or [1, B, H]; zeros by default.
        eta: η of every iteration. None takes the learned η_t⁽ᵏ⁾ of a network that has them, and 1 for others.
        iterations: steps of the iteration; None is the network's own number of inner steps, and 10 for others.
        lengths: [B], the length of each sequence, if they differ.

    Returns:
        A `Contraction`, with one number for each step of each sequence.

    >>> rule = autapse.cells.ImplicitMidpoint(3, 8, step=0.1)
    >>> bool(contraction(rule, torch.zeros(5, 2, 3)).holds.all())
    True
    >>> contraction(autapse.ERNN(3, 8, inner_steps=2), torch.randn(5, 2, 3)).norm.shape
    torch.Size([5, 2])
    """
    cell, x, known = single_rule(rule, x, lengths)
    learned = eta is None and cell.inner_steps is not None
    rate: Any = cell.rates() if learned else checks.number("eta", 1.0 if eta is None else eta)
    default = cell.inner_steps if learned and cell.inner_steps else 10
    iterations = checks.integer("iterations", default if iterations is None else iterations, minimum=1)
    u, weights = cell.drive(x), cell.prepare()
    previous = arguments.first_state(h0, u[0], cell.hidden_size)
    rows = []
    for t, u_t in enumerate(u):
        rates = [rate_at(rate, t, k) for k in range(iterations)]
        settled, converged, following = equilibrium_of(cell, previous, u_t, weights, t)
        norm, ratio, residual = _measure(cell, previous, u_t, weights, rates)
        rows.append((norm, step_norm(cell, settled, previous, u_t, weights, rates[-1]), ratio, residual, converged))
        previous = following
    *numbers, converged = (torch.stack(column) for column in zip(*rows, strict=True))
    past = ~running(known, len(x)).to(converged.device)
    norm, settled, ratio, residual = (n.masked_fill(past, torch.nan) for n in numbers)
    return Contraction(rate, norm, settled, ratio, residual, converged & ~past)


def equilibrium_of(
    cell: EquilibriumRule | ERNN, previous: Tensor, u: Tensor, weights: Any, t: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The equilibrium of a step, whether it was found, and the state from which the network continues."""
    if isinstance(cell, EquilibriumRule) and cell.inner_steps is None:
        h, report = cell.settle(previous, u, weights)
        return h, report.converged.to(h.device), h
    start = cell.start(previous, u, weights) if isinstance(cell, EquilibriumRule) else None
    h, report = newton(RTOL).solve(StepSystem(cell, previous, u, weights, start), rtol=RTOL)
    return h, report.converged.to(h.device), cell.step(u, (previous,), weights, t)[0]


def _measure(
    cell: EquilibriumRule | ERNN, previous: Tensor, u: Tensor, weights: Any, rates: list[float | Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The largest norm and ratio of the iterates, and the part of the first residual that the last one is."""
    z, norms, sizes = previous, [], []
    for eta in rates:
        f = cell.phi(z, previous, u, weights) - z
        norms.append(step_norm(cell, z, previous, u, weights, eta))
        sizes.append(f.norm(dim=1))
        z = z + eta * f
    sizes.append((cell.phi(z, previous, u, weights) - z).norm(dim=1))
    size = torch.stack(sizes)
    ratios = torch.where(size[:-1] > FINE * size[0], size[1:] / size[:-1], 0.0)
    return torch.stack(norms).amax(0), ratios.amax(0), torch.where(size[0] > 0, size[-1] / size[0], 0.0)


def step_norm(
    cell: EquilibriumRule | ERNN, z: Tensor, previous: Tensor, u: Tensor, weights: Any, eta: float | Tensor
) -> Tensor:
    """‖I + η·f′(z)‖₂ of each row, [B]."""
    feedback = cell.feedback(z, previous, u, weights)
    if feedback.dim() == 2:
        return (1 - eta + eta * feedback).abs().amax(1)
    identity = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    step = (1 - eta) * identity + eta * feedback
    # The root of the largest eigenvalue of the Gram matrix is as exact as an SVD for the largest one, and faster.
    return torch.linalg.eigvalsh(step @ step.mT)[:, -1].clamp(min=0).sqrt()


def single_rule(rule: Any, x: Any, lengths: Any) -> tuple[EquilibriumRule | ERNN, Tensor, Tensor]:
    """The rule of a network of one cell, or a rule itself, its input [T, B, D], and the lengths [B]."""
    cell = cell_of(rule)
    if not isinstance(cell, EquilibriumRule | ERNN):
        rule_text = "be an EquilibriumRule or ERNN, or a layer of one"
        checks.fail("rule", rule_text, type(cell).__name__, kind=checks.KindError)
    if cell is not rule:
        run, x, known = layer_input(rule, x, lengths)
        if len(run.cells) != 1:
            remedy = 'Pass one of its cells, as in layer.cells["l0"], with the input that it gets.'
            checks.fail("rule", "be a layer of one rule", f"{len(run.cells)} cells", remedy)
        return cell, x, known
    x = arguments.tensor("x", x)
    x = x.unsqueeze(1) if x.dim() == 2 else x
    if x.dim() != 3 or x.shape[-1] != cell.input_size:
        rule_text = f"have shape (T, B, input_size) with input_size = {cell.input_size}"
        checks.fail("x", rule_text, tuple(x.shape), kind=checks.ShapeError)
    known = checked_lengths(lengths, *x.shape[:2])
    return cell, x, known
