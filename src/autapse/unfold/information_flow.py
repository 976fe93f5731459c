"""Ω, the regulariser for information flow (Pascanu et al. 2013; the textbook's equation 10.16), in plain PyTorch.

Ω = mean over t of (‖g_t·J_t‖ / ‖g_t‖ − 1)², with g_t = ∂L/∂s_t and J_t = ∂s_t/∂s_{t−1}

The back-propagated vectors g_t are constants, and so are the states. If a step reads the state by one product R·h, then
its activations are constants too, as in the paper: J_t depends on R alone. The kernels do the same in their backward
pass. For any other step, J_t depends on all parameters of the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autapse.cells import Cell
from autapse.forms import Form, State
from autapse.gradient.function import Function
from autapse.native.operands import KERNELS

NO_SECOND = "information_flow has no second derivative. Set it to 0 for create_graph=True."
FAINTEST = 1e-60  # squared norm below which a gradient has no direction; as in native/src/driver.h


@dataclass(eq=False)
class FlowTerms:
    """The terms of Ω for one cell and batch, evaluated for all positions at once.

    Args:
        cell: an explicit cell.
        x: [N, D], the steps of all sequences, in the order of a batch.
        initial: what the sequences carry before the first step.
        sizes: number of sequences at each step.
        start: position of the first step.
        reverse: from the last step to the first; for sequences of one length.
        weight: of each term.
    """

    cell: Cell
    x: Tensor
    initial: State
    sizes: Sequence[int]
    start: int
    reverse: bool
    weight: float
    states: State = field(default=(), init=False)  # one [N, S] per state, after each step; set when they are known

    def probes(self) -> State:
        """Zeros like the states. When their gradients arrive, the parameters get the gradient of weight·Σ terms."""
        parameters = tuple(self.cell.parameters())
        return tuple(_Probes.apply(self, *parameters).split(self.cell.state_sizes, dim=1))

    def split(self, probes: State) -> list[State]:
        """The probes of each step, in the order of processing."""
        steps = list(zip(*(probe.split(list(self.sizes)) for probe in probes), strict=True))
        return steps[::-1] if self.reverse else steps

    def gradients(self, arrived: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
        """The gradient of weight·Σ terms, given g_t of all positions, [N, S]."""
        wanted = [p for p in parameters if p.requires_grad]
        if len(self.sizes) < 2 or not wanted:
            return [None] * len(parameters)
        with torch.enable_grad():
            gradients = iter(self._gradients(self._later(arrived), wanted))
        return [next(gradients) if p.requires_grad else None for p in parameters]

    def _gradients(self, g: Tensor, wanted: list[Tensor]) -> Sequence[Tensor | None]:
        weights, count = self.cell.prepare(), len(self.cell.state_sizes)
        form = self.cell.fused(weights)
        u, carried = self._later(self.cell.drive(self.x.detach())), self._before()
        own = [s.requires_grad_() for s in carried[:count]]
        if form is not None and type(form) in KERNELS and form.reads_by_one_product:
            return _of_one_product(self, form, u.detach(), carried, g, wanted)
        q = torch.autograd.grad(self._advance(u, carried, weights), own, g, create_graph=True, materialize_grads=True)
        terms = self.weight * _terms(g, torch.cat(q, dim=1)).sum()
        return torch.autograd.grad(terms, wanted, allow_unused=True) if terms.requires_grad else [None] * len(wanted)

    def _advance(self, u: Tensor, carried: State, weights: Any) -> Tensor:
        """The states after all steps but the first, [n, S]."""
        cell, count = self.cell, len(self.cell.state_sizes)
        if not cell.depends_on_position:
            return torch.cat(cell.advance(u, carried, weights, self.start)[:count], dim=1)
        sizes = list(self.sizes[1:])
        steps = zip(u.split(sizes), *(s.split(sizes) for s in carried), strict=True)
        news = [cell.advance(u, tuple(s), weights, self.start + t)[:count] for t, (u, *s) in enumerate(steps, 1)]
        return torch.cat([torch.cat(new, dim=1) for new in news])

    def _later(self, rows: Tensor) -> Tensor:
        """The rows of all steps but the first one processed, in the order of processing."""
        if self.reverse:
            return torch.cat(rows.split(list(self.sizes))[-2::-1])
        return rows[self.sizes[0] :]

    def _before(self) -> State:
        """What the sequences carry before each of these steps, without a graph."""
        columns = [state.detach().split(list(self.sizes)) for state in self.states]
        steps = list(zip(*(column[::-1] if self.reverse else column for column in columns), strict=True))
        count, back = len(self.cell.state_sizes), self.cell.steps_back
        older = [self.initial[n * count : (n + 1) * count] for n in reversed(range(back))]
        history = [
            *(tuple(s.detach() for s in state) for state in older),
            *steps,
        ]  # the state before step t is at t + back - 1
        return tuple(
            torch.cat([history[t + back - 1 - n][part][:size] for t, size in enumerate(self.sizes) if t])
            for n in range(back)
            for part in range(count)
        )


def _terms(g: Tensor, q: Tensor) -> Tensor:  # [n, S] each -> [n]
    """(‖q‖ / ‖g‖ − 1)² of each row; 0 for rows without a direction."""
    seen = (g.double().square().sum(1) > FAINTEST) & (q.detach().double().square().sum(1) > FAINTEST)
    g, q = g[seen].double(), q[seen].double()
    return (q.norm(dim=1) / g.norm(dim=1) - 1).square()


def _of_one_product(
    terms: FlowTerms, form: Form, u: Tensor, carried: State, g: Tensor, wanted: list[Tensor]
) -> Sequence[Tensor | None]:
    """With δ the gradient at the product R·h, q is δ·R and what passes beside R. R gets Σ δᵀ·w, w = ∂(Σ terms)/∂q."""
    own = carried[: len(terms.cell.state_sizes)]
    positions = torch.cat([torch.full((n,), terms.start + t) for t, n in enumerate(terms.sizes) if t])
    product = form.product(own[0]).detach().requires_grad_()
    new = torch.cat(form.joined(u, product, form.read(carried), positions.to(u.device)), dim=1)
    delta, *beside = torch.autograd.grad(new, (product, *own), g, materialize_grads=True)
    (through,) = torch.autograd.grad(form.product(own[0]), own[0], delta)
    q = torch.cat([beside[0] + through, *beside[1:]], dim=1).requires_grad_()
    (w,) = torch.autograd.grad(terms.weight * _terms(g, q).sum(), q)
    moved = form.product(w[:, : own[0].shape[1]])
    return torch.autograd.grad(moved, wanted, delta, allow_unused=True) if moved.requires_grad else [None] * len(wanted)


class _Probes(Function):
    """Zeros, [N, S]. Their gradient is g_t of all positions; the parameters get the gradient of the terms."""

    @staticmethod
    def forward(terms: FlowTerms, *parameters: Tensor) -> Tensor:
        return terms.x.new_zeros(len(terms.x), sum(terms.cell.state_sizes))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.terms, *parameters = inputs
        ctx.save_for_backward(*parameters)

    @staticmethod
    def backward(ctx: Any, arrived: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise NotImplementedError(NO_SECOND)
        return None, *ctx.terms.gradients(arrived, ctx.saved_tensors)
