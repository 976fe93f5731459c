"""The weights of attention, as functions that autograd can differentiate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.native import library
from autapse.native.memory import fresh
from autapse.native.operands import check_dtype, check_shape, dense
from autapse.native.second_order import Reference, second_order


def additive(
    reference: Reference,
    query: Tensor,  # [B, T, A]
    keys: Tensor,  # [B, S, A]
    vector: Tensor,  # [A]
    target_lengths: Tensor | None = None,  # [B]
    source_lengths: Tensor | None = None,  # [B]
) -> Tensor:  # [B, T, S]
    """w_ts = softmax over s of Σ_a v_a·tanh(q_ta + k_sa); zero past the lengths, whose pairs cost nothing.

    Args:
        reference: the same function of query, keys and vector in plain PyTorch, for second derivatives.
        query: q, one row per step of the target.
        keys: k, one row per step of the source.
        vector: v.
        target_lengths: steps of each target; None: all T.
        source_lengths: steps of each source; None: all S.

    Returns:
        The weights.
    """
    check_shape("key", keys.shape, (None, None, None))
    weights: Tensor = _Weights.apply(
        ADDITIVE, keys.shape[1], reference, query, keys, vector, target_lengths, source_lengths
    )
    return weights


def monotonic(
    reference: Reference,
    heights: Tensor,  # [B, T, K]
    roots: Tensor,  # [B, T, K]
    places: Tensor,  # [B, T, K]
    sources: int,
    target_lengths: Tensor | None = None,  # [B]
    source_lengths: Tensor | None = None,  # [B]
) -> Tensor:  # [B, T, S]
    """w_ts = Σ_k of the softmax over k and s together of a_tk − (r_tk·(κ_tk − s))², with s = 1 … S.

    Args:
        reference: the same function of heights, roots and places in plain PyTorch, for second derivatives.
        heights: a of each window.
        roots: r, the square root of its sharpness.
        places: κ.
        sources: S, the steps of the longest source.
        target_lengths: steps of each target; None: all T.
        source_lengths: steps of each source; None: all S.

    Returns:
        The weights, zero past the lengths, whose pairs cost nothing.
    """
    sources = checks.integer("sources", sources, minimum=0)
    weights: Tensor = _Weights.apply(
        MONOTONIC, sources, reference, heights, roots, places, target_lengths, source_lengths
    )
    return weights


Names = tuple[str, str, str]
ADDITIVE: Names = ("query", "key", "vector")  # names in src/abi.h of what each kind is given
MONOTONIC: Names = ("height", "root", "place")
_LENGTHS = ("target_lengths", "source_lengths")


def _problem(
    given: Names, sources: int, tensors: Sequence[Tensor], lengths: Sequence[Tensor | None]
) -> tuple[Any, list[Any]]:
    """The problem of these tensors, and the tensors that it points to. All but the values of the lengths is checked."""
    check_dtype(tensors[0].dtype)
    B, T, A = check_shape(given[0], tensors[0].shape, (None, None, None))
    checks.integer(f"the size of {given[0]}", A, minimum=1)
    shapes: dict[str, Sequence[int]] = dict.fromkeys(MONOTONIC, (B, T, A))
    shapes |= {"query": (B, T, A), "key": (B, sources, A), "vector": (A,)}
    shapes |= dict.fromkeys(("weight", "grad_weight"), (B, T, sources)) | dict.fromkeys(_LENGTHS, (B,))
    names = (*given, "weight", "grad_weight")[: len(tensors)]
    for name, tensor in (*zip(names, tensors, strict=True), *zip(_LENGTHS, lengths, strict=True)):
        if tensor is not None or name not in _LENGTHS:
            check_shape(name, None if tensor is None else tensor.shape, shapes[name])
    held = [*dense(names, tensors, tensors[0].dtype), *dense(_LENGTHS, lengths, torch.int64)]
    sizes = {"batch": B, "targets": T, "sources": sources, "size": A, "monotonic": given is MONOTONIC}
    problem = library.AttentionStruct(wide=tensors[0].dtype == torch.float64, threads=torch.get_num_threads(), **sizes)
    for name, tensor in zip((*names, *_LENGTHS), held, strict=True):
        setattr(problem, name, None if tensor is None else tensor.data_ptr())
    return problem, held


def _run(function: str, problem: Any, lengths: Sequence[Tensor | None]) -> None:
    if not library.run(function, problem):
        rule = f"be from 0 to {problem.targets} for targets and to {problem.sources} for sources"
        checks.fail("lengths", rule, [None if n is None else n.tolist() for n in lengths], kind=checks.ShapeError)


class _Weights(torch.autograd.Function):
    """Autograd of the weights: the backward kernel, or the reference if the gradient itself is to be differentiated."""

    @staticmethod
    def forward(ctx: Any, names: Names, sources: int, reference: Reference, *given: Any) -> Tensor:
        tensors, lengths = given[:3], given[3:]
        problem, held = _problem(names, sources, tensors, lengths)
        weights = fresh(held[0], (problem.batch, problem.targets, sources))
        if weights.numel():
            problem.weight = weights.data_ptr()
            _run("attention_forward", problem, lengths)
        # The tensors as they were given: contiguous copies would have no history to differentiate twice.
        ctx.save_for_backward(*given, weights)
        ctx.names, ctx.reference = names, reference
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        *given, weights = ctx.saved_tensors
        tensors, lengths = given[:3], given[3:]
        if torch.is_grad_enabled():
            return None, None, None, *second_order(ctx.reference, tensors, (grad,)), None, None
        problem, held = _problem(ctx.names, weights.shape[-1], (*tensors, weights, grad), lengths)
        results = [torch.empty_like(tensor) if weights.numel() else torch.zeros_like(tensor) for tensor in held[:3]]
        if weights.numel():
            for name, result in zip(ctx.names, results, strict=True):
                setattr(problem, f"grad_{name}", result.data_ptr())
            _run("attention_backward", problem, lengths)
        return None, None, None, *results, None, None
