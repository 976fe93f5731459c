"""The weights of attention, by the native kernels or in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    return _weights(native.additive, additive_reference, (query, keys, vector), (), targets, sources)


def additive_reference(
    query: Tensor, keys: Tensor, vector: Tensor, targets: Tensor | None = None, sources: Tensor | None = None
) -> Tensor:
    """The same, as the equation has it."""
    energies = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1)) @ vector
    return _inside_targets(softmax_inside(energies, sources), targets)


def monotonic_weights(
    heights: Tensor,  # [B, T, K]
    roots: Tensor,  # [B, T, K]
    places: Tensor,  # [B, T, K]
    steps: int,
    targets: Tensor | None = None,  # [B]
    sources: Tensor | None = None,  # [B]
) -> Tensor:  # [B, T, S]
    """w_ts = Σ_k of the softmax over k and s together of a_tk − (r_tk·(κ_tk − s))², with s = 1 … S.

    As for `additive_weights`, the native kernel computes the valid pairs only and never has the values of all pairs,
    B·T·S·K in number, in memory.

    Args:
        heights: a of each window.
        roots: r, the square root of its sharpness.
        places: κ.
        steps: S, the steps of the longest source.
        targets: lengths of the targets; None: all have T steps.
        sources: lengths of the sources; None: all have S steps.

    Returns:
        The weights. They are zero past the end of a target and of a source.

    >>> one = torch.ones(1, 1, 1)
    >>> monotonic_weights(one, one, 1.5 * one, 3, sources=torch.tensor([2]))
    tensor([[[0.5000, 0.5000, 0.0000]]])
    """
    return _weights(native.monotonic, monotonic_reference, (heights, roots, places), (steps,), targets, sources)


def monotonic_reference(
    heights: Tensor,
    roots: Tensor,
    places: Tensor,
    steps: int,
    targets: Tensor | None = None,
    sources: Tensor | None = None,
) -> Tensor:
    """The same, as the equation has it."""
    source = torch.arange(1, steps + 1, device=places.device, dtype=places.dtype)
    distance = roots.unsqueeze(-1) * (places.unsqueeze(-1) - source)  # [B, T, K, S]
    energies = torch.addcmul(heights.unsqueeze(-1), distance, distance, value=-1)
    return _inside_targets(softmax_inside(energies, sources, dims=2).sum(2), targets)


def _weights(
    kernel: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    tensors: tuple[Tensor, Tensor, Tensor],
    sizes: tuple[int, ...],
    targets: Tensor | None,
    sources: Tensor | None,
) -> Tensor:
    """By the kernel if it can serve, else by the reference."""
    if not kernels_serve(*tensors) or not is_plain(*tensors):
        return reference(*tensors, *sizes, targets, sources)
    lengths = [None if part is None else part.to("cpu", torch.int64) for part in (targets, sources)]

    def for_second_order(*views: Any) -> tuple[Tensor]:
        return (reference(*views, *sizes, *lengths),)

    return kernel(for_second_order, *tensors, *sizes, *lengths)


def _inside_targets(weights: Tensor, targets: Tensor | None) -> Tensor:
    return weights if targets is None else weights.masked_fill(~inside(targets, weights), 0)
