"""Unchanged: checks that the tensors which a backward pass reads again have not changed."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

HINT = (
    "The backward pass uses these tensors again: call backward() before an optimizer step, load_state_dict or other "
    "changes of them."
)


class Unchanged:
    """Tensors, each with autograd's version counter and its address."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.seen = [(tensor, _mark(tensor)) for tensor in tensors]

    def check(self, now: Iterable[Tensor]) -> None:
        """Raise autograd's error if one was changed in place, or differs from the tensors that are read now."""
        for (tensor, mark), current in zip(self.seen, now, strict=True):
            if tensor is current and _mark(tensor) == mark:
                continue
            what, version = f"[{tensor.type()} {list(tensor.shape)}]", _mark(tensor)[0]
            how = (
                f"modified by an inplace operation: {what} is at version {version}; expected version {mark[0]} instead"
            )
            how = how if version != mark[0] else f"replaced by another: {what}"
            raise RuntimeError(f"one of the variables needed for gradient computation has been {how}. {HINT}")


def _mark(tensor: Tensor) -> tuple[int, int]:
    if tensor.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return 0, 0
    version = 0 if tensor.is_inference() else tensor._version  # inference tensors have none
    return version, tensor.data_ptr()
