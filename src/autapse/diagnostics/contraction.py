"""Whether the condition of the ERNN paper's Theorem 1 holds on data, and the contraction that is measured there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.equilibrium import EquilibriumRule
from autapse.layers import Recurrent

FINE = 1e-9  # of the first residual: ratios of what is below it are of roundings


@dataclass(frozen=True)
class Contraction:
    """What `contraction` found at each step of each sequence. Tensors are detached, [T, B] each."""

    eta: float
    norm: Tensor  # the largest ‖I + η·f′‖₂ over the iterates
    settled: Tensor  # ‖I + η·f′‖₂ at the equilibrium: what the linear rate is near it, at most
    ratio: Tensor  # the largest ‖f(z⁽ᵏ⁺¹⁾)‖ / ‖f(z⁽ᵏ⁾)‖ that was measured
    residual: Tensor  # ‖f‖ of the last iterate over that of the first
    converged: Tensor  # bool, whether the equilibrium itself was found

    @property
    def holds(self) -> Tensor:
        """Whether ‖I + η·f′‖₂ < 1 at every iterate and at the equilibrium, [T, B] bool."""
        return (self.norm < 1) & (self.settled < 1)

    def words(self) -> str:
        """One line: where the condition holds, and what was measured."""
        held, count = int(self.holds.sum()), self.holds.numel()
        return (
            f"‖I + {self.eta:g}·f′‖ < 1 at {held} of {count} steps, largest {float(self.norm.max()):.3g}; "
            f"residuals fell by {float(self.ratio.max()):.3g} at worst"
        )


@torch.no_grad()
def contraction(
    rule: EquilibriumRule | Recurrent,  # a rule, or a layer of one rule
    x: Tensor,  # [T, B, D], or [B, T, D] for a layer with batch_first
    h0: Tensor | None = None,  # [B, H], or [1, B, H]
    eta: float = 1.0,
    iterations: int = 10,
) -> Contraction:
    """Theorem 1 of the ERNN paper, checked: ‖I + η·f′(z⁽ᵏ⁾)‖ < 1 for all k, with f(z) = φ(z, h_{t−1}, x_t) − z.

    Under it z⁽ᵏ⁺¹⁾ = z⁽ᵏ⁾ + η·f(z⁽ᵏ⁾) converges to the equilibrium, linearly, from near enough. Here that iteration
    runs from z⁽⁰⁾ = h_{t−1} at each step, `iterations` of it, along the states that the rule's own solver finds. The
    norm is the largest singular value, of (1 − η)·I + η·∂φ/∂h. With η = 1 it is whether φ itself contracts.

    >>> rule = autapse.cells.ImplicitMidpoint(3, 8, step=0.1)
    >>> bool(contraction(rule, torch.zeros(5, 2, 3)).holds.all())
    True
    """
    cell, x = _single(rule, x)
    eta = checks.number("eta", eta)
    iterations = checks.integer("iterations", iterations, minimum=1)
    u, weights = cell.drive(x), cell.prepare()
    previous = u.new_zeros(x.shape[1], cell.hidden_size) if h0 is None else h0.reshape(-1, cell.hidden_size).to(u.dtype)
    if len(previous) != x.shape[1]:
        checks.fail("h0", f"have shape (B, H) = {(x.shape[1], cell.hidden_size)}", tuple(h0.shape))  # type: ignore[union-attr]
    found = []
    for u_t in u:
        h, report = cell.settle(previous, u_t, weights)
        measured = _measure(cell, previous, u_t, weights, eta, iterations)
        settled = _norm(cell, h, previous, u_t, weights, eta)
        found.append((measured[0], settled, *measured[1:], report.converged.to(u.device)))
        previous = h
    return Contraction(eta, *(torch.stack(column) for column in zip(*found, strict=True)))


def _measure(
    cell: EquilibriumRule, previous: Tensor, u: Tensor, weights: Any, eta: float, iterations: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The largest norm and ratio of the iterates, and the part of the first residual that the last one is."""
    z, norms, sizes = previous, [], []
    for _ in range(iterations):
        f = cell.phi(z, previous, u, weights) - z
        norms.append(_norm(cell, z, previous, u, weights, eta))
        sizes.append(f.norm(dim=1))
        z = z + eta * f
    sizes.append((cell.phi(z, previous, u, weights) - z).norm(dim=1))
    size = torch.stack(sizes)
    ratios = torch.where(size[:-1] > FINE * size[0], size[1:] / size[:-1], 0.0)
    return torch.stack(norms).amax(0), ratios.amax(0), torch.where(size[0] > 0, size[-1] / size[0], 0.0)


def _norm(cell: EquilibriumRule, z: Tensor, previous: Tensor, u: Tensor, weights: Any, eta: float) -> Tensor:
    feedback = cell.feedback(z, previous, u, weights)
    if feedback.dim() == 2:
        return (1 - eta + eta * feedback).abs().amax(1)
    identity = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return torch.linalg.matrix_norm((1 - eta) * identity + eta * feedback, ord=2)


def _single(rule: Any, x: Tensor) -> tuple[EquilibriumRule, Tensor]:
    if isinstance(rule, Recurrent):
        if len(rule.cells) != 1:
            remedy = 'Pass one of its cells, as in layer.cells["l0"], with the input that it gets.'
            checks.fail("rule", "be a layer of one rule", f"{len(rule.cells)} cells", remedy)
        x = x.transpose(0, 1) if rule.batch_first and x.dim() == 3 else x
        rule = rule.cells["l0"]
    if not isinstance(rule, EquilibriumRule):
        checks.fail("rule", "be an EquilibriumRule or a layer of one", type(rule).__name__, kind=checks.KindError)
    x = x.unsqueeze(1) if x.dim() == 2 else x
    if x.dim() != 3 or x.shape[-1] != rule.input_size:
        rule_text = f"have shape (T, B, input_size) with input_size = {rule.input_size}"
        checks.fail("x", rule_text, tuple(x.shape), kind=checks.ShapeError)
    return rule, x
