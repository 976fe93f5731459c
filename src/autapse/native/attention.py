"""The weights of additive attention, as a function that autograd can differentiate."""

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
    weights: Tensor = _Additive.apply(reference, query, keys, vector, target_lengths, source_lengths)
    return weights


_GIVEN = ("query", "key", "vector")
_LENGTHS = ("target_lengths", "source_lengths")


def _problem(tensors: Sequence[Tensor], lengths: Sequence[Tensor | None]) -> tuple[Any, list[Any]]:
    """The problem of these tensors, and the tensors that it points to. All but the values of the lengths is checked."""
    query, keys, vector, *_ = tensors
    check_dtype(query.dtype)
    B, T, A = check_shape("query", query.shape, (None, None, None))
    checks.integer("the size of query", A, minimum=1)
    _, S, _ = check_shape("key", keys.shape, (B, None, A))
    check_shape("vector", vector.shape, (A,))
    names = (*_GIVEN, "weight", "grad_weight")[: len(tensors)]
    for name, tensor in zip(names[3:], tensors[3:], strict=True):
        check_shape(name, tensor.shape, (B, T, S))
    for name, known in zip(_LENGTHS, lengths, strict=True):
        if known is not None:
            check_shape(name, known.shape, (B,))
    held = [*dense(names, tensors, query.dtype), *dense(_LENGTHS, lengths, torch.int64)]
    sizes = {"batch": B, "targets": T, "sources": S, "size": A}
    problem = library.AttentionStruct(wide=query.dtype == torch.float64, threads=torch.get_num_threads(), **sizes)
    for name, tensor in zip((*names, *_LENGTHS), held, strict=True):
        setattr(problem, name, None if tensor is None else tensor.data_ptr())
    return problem, held


def _run(function: str, problem: Any, lengths: Sequence[Tensor | None]) -> None:
    if not library.run(function, problem):
        rule = f"be from 0 to {problem.targets} for targets and to {problem.sources} for sources"
        checks.fail("lengths", rule, [None if n is None else n.tolist() for n in lengths], kind=checks.ShapeError)


class _Additive(torch.autograd.Function):
    """Autograd of `additive`: its backward kernel, or the reference if the gradient itself is to be differentiated."""

    @staticmethod
    def forward(ctx: Any, reference: Reference, *given: Any) -> Tensor:
        tensors, lengths = given[:3], given[3:]
        problem, held = _problem(tensors, lengths)
        weights = fresh(held[0], (problem.batch, problem.targets, problem.sources))
        if weights.numel():
            problem.weight = weights.data_ptr()
            _run("attention_forward", problem, lengths)
        # The tensors as they were given: contiguous copies would have no history to differentiate twice.
        ctx.save_for_backward(*given, weights)
        ctx.reference = reference
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        *given, weights = ctx.saved_tensors
        tensors, lengths = given[:3], given[3:]
        if torch.is_grad_enabled():
            return None, *second_order(ctx.reference, tensors, (grad,)), None, None
        problem, held = _problem((*tensors, weights, grad), lengths)
        results = [torch.empty_like(tensor) if weights.numel() else torch.zeros_like(tensor) for tensor in held[:3]]
        if weights.numel():
            problem.grad_query, problem.grad_key, problem.grad_vector = (result.data_ptr() for result in results)
            _run("attention_backward", problem, lengths)
        return None, *results, None, None
