"""Kernel or reference? And may a kernel be called without PyTorch's dispatcher?"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from autapse.native import library
from autapse.native.operands import DTYPES


def in_forward_mode() -> bool:
    """Whether tensors may have forward derivatives."""
    return forward_ad._current_level >= 0


def kernels_serve(x: Tensor, *others: Tensor, have_tangents: bool = False) -> bool:
    """Whether the kernels can take these tensors, in the current state of PyTorch. If not, the reference can.

    Every caller that has both a kernel and a reference asks here. `have_tangents`: its kernels have forward
    derivatives. They have no graph, so that the reference must serve where autograd records one.
    """
    if not x.is_cpu:
        return False
    if not library.available():
        library.warn_if_missing()
        return False
    dtype = x.dtype
    for tensor in others:
        if tensor.dtype != dtype or not tensor.is_cpu:
            return False
    return (
        dtype in DTYPES
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()  # vmap and others look inside an op
        and (not in_forward_mode() or (have_tangents and not torch.is_grad_enabled()))
    )


def _keys_of_plain_tensors(inference: bool) -> int:
    with torch.inference_mode(inference):
        return torch._C._dispatch_keys(torch.empty(0, device="cpu")).raw_repr()


_PLAIN = {_keys_of_plain_tensors(False), _keys_of_plain_tensors(True)}


def is_plain(*tensors: Tensor | None) -> bool:
    """Whether a kernel may be called without PyTorch's dispatcher, which takes longer than a small scan.

    It may if nothing traces, wraps or transforms the call: no compiler, no mode, no tensor that is not just memory of
    the CPU (subclasses, fake tensors, wrappers of torch.func, negated views).
    """
    if (
        torch.compiler.is_compiling()
        or torch._C._has_torch_function(tensors)  # of a tensor or of a mode
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state() is not None
    ):
        return False
    keys = torch._C._dispatch_keys
    for tensor in tensors:  # noqa: SIM110 - every small call comes here, and all() takes a microsecond more
        if tensor is not None and keys(tensor).raw_repr() not in _PLAIN:
            return False
    return True
