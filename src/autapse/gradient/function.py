"""Function: the base of every autograd function here, so that no derivative is silently zero in any mode.

Solvers work on detached values, so a solution has no derivative until a Function gives it one. If a Function were
skipped because no tensor requires grad, the derivatives of torch.func.jvp and vmap would be lost: `is_tracked` knows
all modes. If a Function has no rule for a mode, it raises an error that names the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters
from torch.autograd import forward_ad

FORWARD = "has no forward-mode derivative (torch.func.jvp, jacfwd, hessian)"
VMAP = "cannot run under torch.func.vmap, because its solver depends on the values"
ONE_BATCH = "Put the samples into the batch of one call, or call once per sample."


class Function(torch.autograd.Function):
    """An autograd function that vmap calls once per sample. Forward mode raises an error if it has no `jvp`."""

    remedy: ClassVar[str] = ""
    """What to do instead of forward mode."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)

        def refuse(ctx: Any, *tangents: Any) -> Any:
            raise NotImplementedError(f"{cls.__qualname__.strip('_')} {FORWARD}. {cls.remedy}")

        def each_sample(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
            return _each_sample(cls.apply, info.batch_size, in_dims, arguments)

        if "jvp" not in vars(cls):
            cls.jvp = staticmethod(refuse)  # type: ignore[method-assign]
        if "vmap" not in vars(cls):
            cls.vmap = staticmethod(each_sample)  # type: ignore[method-assign]


def _each_sample(
    run: Callable[..., Any], count: int, in_dims: tuple[Any, ...], arguments: tuple[Any, ...]
) -> tuple[Any, Any]:
    pairs = list(zip(arguments, in_dims, strict=True))
    results = [run(*(a if d is None else a.select(d, n) for a, d in pairs)) for n in range(count)]
    if isinstance(results[0], Tensor):
        return torch.stack(results), 0
    return tuple(torch.stack(column) for column in zip(*results, strict=True)), (0,) * len(results[0])


@contextmanager
def without_saved_tensor_hooks() -> Iterator[None]:
    """Remove the hooks, for code without a graph: torch.func does not run with them, as inside a checkpoint."""
    stack: Any = torch._C._autograd
    last = getattr(stack, "_top_saved_tensors_default_hooks", lambda _: None)  # not in torch 2.7
    hooks = []
    while (top := last(False)) is not None:
        hooks.append(top)
        stack._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            stack._push_saved_tensors_default_hooks(pack, unpack)


def without_autocast(device_type: str) -> AbstractContextManager[object]:
    """A context without autocast, on any device: half precision is too coarse for a solve."""
    available = torch.amp.is_autocast_available(device_type)  # not on the meta device
    if not available or not torch.is_autocast_enabled(device_type):
        return nullcontext()
    return torch.autocast(device_type, enabled=False)


def is_tracked(tensors: Iterable[Any]) -> bool:
    """Whether autograd, dual tensors or torch.func may need a derivative of a function of the tensors."""
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return True
    return torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in tensors)


class _Once(Function):
    """A result without a graph. Differentiating it raises an error that names the remedy."""

    @staticmethod
    def forward(remedy: str, result: Tensor, *sources: Tensor) -> Tensor:
        return result.view_as(result)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.message = inputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError(ctx.message)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(ctx.message)


class _Values(Function):
    """A computation on plain values."""

    @staticmethod
    def forward(compute: Callable[..., Any], *tensors: Tensor) -> Any:
        return compute(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass


class _Samples(_Values):
    """A computation under vmap, one sample after the other, still inside the outer transforms."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        return _each_sample(_Samples.forward, info.batch_size, in_dims, arguments)


def opaque(compute: Callable[..., tuple[Tensor, ...]], remedy: str, *tensors: Tensor) -> tuple[Tensor, ...]:
    """`compute(*tensors)` without a graph, under vmap once per sample. Differentiating the result raises an error.

    `compute` may use other tensors too, if vmap does not map over them.
    """
    with torch.no_grad():
        batched = any(is_batchedtensor(tensor) for tensor in tensors)
        results = _Samples.apply(compute, *tensors) if batched else compute(*tensors)
    if not is_tracked(tensors):
        return results
    return tuple(_Once.apply(remedy, result, *tensors) for result in results)


def on_values(compute: Callable[..., Any], *tensors: Tensor | None) -> Any:
    """`compute(*tensors)` with plain values, inside all transforms; under vmap once per sample. It has no graph."""
    with torch.no_grad(), forward_ad._set_fwd_grad_enabled(False):
        values = [None if tensor is None else tensor.detach() for tensor in tensors]
        if torch._C._are_functorch_transforms_active():
            return _Values.apply(compute, *values)
        return compute(*values)


def reverse_mode_only(what: str, tensors: Sequence[Any], forward_remedy: str | None = None) -> None:
    """Raise an error if a tensor belongs to a transform that a solver does not support.

    `forward_remedy` says what to do instead of forward mode; None if that is supported.
    """
    wrapped = [t for t in tensors if isinstance(t, Tensor) and is_functorch_wrapped_tensor(t)]
    if any(_is_batched(t) for t in wrapped):
        raise NotImplementedError(f"{what} {VMAP}. {ONE_BATCH}")
    if forward_remedy is not None and ((wrapped and _in_torch_jvp()) or any(_is_dual(t) for t in tensors)):
        raise NotImplementedError(f"{what} {FORWARD}. {forward_remedy}")


def _is_batched(tensor: Tensor) -> bool:
    while is_functorch_wrapped_tensor(tensor):
        if is_batchedtensor(tensor):
            return True
        tensor = get_unwrapped(tensor)
    return False


def _in_torch_jvp() -> bool:
    return any(level.key() == TransformType.Jvp for level in retrieve_all_functorch_interpreters())


def _is_dual(tensor: Any) -> bool:
    if forward_ad._current_level < 0 or not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None
