"""The energies of additive attention in little memory: pieces that fit into a cache, computed again for gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from autapse.gradient.function import Function, is_tracked

PIECE = 2**18  # values at a time: they fit into the cache of a core
LARGEST = 40.0  # of what is added: tanh has no other values long before, and exp(80) is finite


def additive_energies(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:  # [B, T, A], [B, S, A], [A] -> [B, T, S]
    """Σ_a v_a·tanh(q_ta + k_sa) for all pairs of steps t and s.

    Args:
        query: q, one row per step of the target.
        keys: k, one row per step of the source.
        vector: v.

    Returns:
        The energies. The values of all pairs, B·T·S·A in number, are never in memory at once.

    >>> additive_energies(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.ones(4)).shape
    torch.Size([2, 3, 5])
    """
    pairs = query.shape[1] * keys.numel()
    if pairs <= PIECE and is_tracked((query, keys, vector)):
        return additive_reference(query, keys, vector)
    return _Energies.apply(query, keys, vector)


def additive_reference(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    """The same, as the equation has it."""
    return torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1)) @ vector


class _Energies(Function):
    """tanh(q + k) = 1 − 2r with r = 1 / (1 + e^2q·e^2k): one exponential per row instead of one per pair of rows."""

    remedy = "Use multiplicative attention."

    @staticmethod
    def forward(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
        q, k = _exponentials(query, keys)
        energies = query.new_empty(*query.shape[:2], keys.shape[1])
        for rows, steps in _pieces(query, keys):
            energies[rows, steps] = _shares(q[rows, steps], k[rows]) @ vector
        return energies.mul_(-2).add_(vector.sum())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        query, keys, vector = ctx.saved_tensors
        if torch.is_grad_enabled() and is_tracked((query, keys, vector, grad)):  # second derivatives are wanted
            energies = additive_reference(query, keys, vector)
            return torch.autograd.grad(energies, (query, keys, vector), grad, create_graph=True)
        q, k = _exponentials(query, keys)
        to_query, to_keys, to_vector = torch.empty_like(query), torch.zeros_like(keys), torch.zeros_like(vector)
        for rows, steps in _pieces(query, keys):
            weight, r = grad[rows, steps], _shares(q[rows, steps], k[rows])
            to_vector += weight.reshape(-1) @ r.view(-1, r.shape[-1])
            slope = r.addcmul_(r, r, value=-1).mul_(weight.unsqueeze(-1))  # 1 − tanh² = 4·(r − r²)
            to_query[rows, steps] = slope.sum(2)
            to_keys[rows] += slope.sum(1)
        return to_query.mul_(4 * vector), to_keys.mul_(4 * vector), grad.sum() - 2 * to_vector


def _exponentials(query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    q, k = (part.detach().clamp(-LARGEST, LARGEST).mul(2).exp_() for part in (query, keys))
    return q, k


def _shares(q: Tensor, k: Tensor) -> Tensor:  # [b, t, A], [b, S, A] -> [b, t, S, A]
    """1 / (1 + q·k)"""
    return torch.addcmul(q.new_ones(1), q.unsqueeze(2), k.unsqueeze(1)).reciprocal_()


def _pieces(query: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice]]:
    """Sequences and steps of the target that are computed together."""
    (batch, length, size), sources = query.shape, keys.shape[1]
    steps = min(max(1, PIECE // max(sources * size, 1)), max(length, 1))
    rows = max(1, PIECE // max(steps * sources * size, 1))
    for row in range(0, batch, rows):
        for step in range(0, length, steps):
            yield slice(row, row + rows), slice(step, step + steps)
