"""The weights of additive attention, by the native kernel or in plain PyTorch."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from autapse.models.padding import inside, softmax_inside
from autapse.native import attention as native
from autapse.native.dispatch import is_plain, kernels_serve


def additive_weights(
    query: Tensor,  # [B, T, A]
    keys: Tensor,  # [B, S, A]
    vector: Tensor,  # [A]
    targets: Tensor | None = None,  # [B]
    sources: Tensor | None = None,  # [B]
) -> Tensor:  # [B, T, S]
    """w_ts = softmax over s of Σ_a v_a·tanh(q_ta + k_sa).

    The native kernel never has the values of all pairs, B·T·S·A in number, in memory, and computes the valid pairs
    only. Plain PyTorch, which serves elsewhere, has them in memory.

    Args:
        query: q, one row per step of the target.
        keys: k, one row per step of the source.
        vector: v.
        targets: lengths of the targets; None: all have T steps.
        sources: lengths of the sources; None: all have S steps.

    Returns:
        The weights. They are zero past the end of a target and of a source.

    >>> additive_weights(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3), torch.ones(3), sources=torch.tensor([2])).tolist()
    [[[0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]]]
    """
    if not kernels_serve(query, keys, vector) or not is_plain(query, keys, vector):
        return additive_reference(query, keys, vector, targets, sources)
    targets, sources = (None if part is None else part.to("cpu", torch.int64) for part in (targets, sources))
    reference = partial(_for_second_order, targets, sources)
    return native.additive(reference, query, keys, vector, targets, sources)


def additive_reference(
    query: Tensor, keys: Tensor, vector: Tensor, targets: Tensor | None = None, sources: Tensor | None = None
) -> Tensor:
    """The same, as the equation has it."""
    energies = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1)) @ vector
    weights = softmax_inside(energies, sources)
    return weights if targets is None else weights.masked_fill(~inside(targets, query), 0)


def _for_second_order(
    targets: Tensor | None, sources: Tensor | None, query: Tensor, keys: Tensor, vector: Tensor
) -> tuple[Tensor]:
    return (additive_reference(query, keys, vector, targets, sources),)
