"""The heads of an explicit memory in one step, as a function that autograd can differentiate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.native import library
from autapse.native.operands import check_dtype, check_shape, dense
from autapse.native.second_order import Reference, second_order

Access = tuple[Tensor, Tensor, Tensor]  # the new memory, the addresses, what was read


class HeadsKind(NamedTuple):
    """How heads choose, and the sizes."""

    content: bool
    location: bool
    dot: bool
    slots: int
    width: int
    reads: int
    writes: int
    shifts: int
    short: float  # ε of the cosine

    @property
    def heads(self) -> int:
        return self.reads + self.writes

    @property
    def numbers(self) -> int:
        """How many numbers a row has; src/abi.h lists them."""
        vectors = self.width * (self.heads * self.content + 2 * self.writes)
        others = self.content + self.location + self.content * self.location + (2 * self.shifts + 1) * self.location
        return vectors + self.heads * others


def access(kind: HeadsKind, reference: Reference, numbers: Tensor, memory: Tensor, addresses: Tensor) -> Access:
    """One step of all heads.

    Args:
        kind: how heads choose, and the sizes.
        reference: the same in plain PyTorch, for second derivatives.
        numbers: what the controller tells the heads, [B, P] as src/abi.h lists it.
        memory: before the step, [B, N, W].
        addresses: before the step, [B, n, N].

    Returns:
        The memory after the step [B, N, W], the addresses [B, n, N], and what was read [B, reads, W].
    """
    result: Access = _Access.apply(kind, reference, numbers, memory, addresses)
    return result


@lru_cache(maxsize=1024)
def _plan(kind: HeadsKind, batch: int, dtype: torch.dtype) -> library.HeadsStruct:
    check_dtype(dtype)
    least = 2 * kind.shifts + 1 if kind.location else 1
    for name, value, minimum in (
        *((name, getattr(kind, name), 1) for name in ("width", "reads", "writes", "shifts")),
        ("slots", kind.slots, least),
    ):
        checks.integer(name, value, minimum=minimum)
    sizes: dict[str, Any] = {k: v for k, v in kind._asdict().items() if k != "short"}
    smallest = torch.finfo(dtype).eps ** 2
    return library.HeadsStruct(
        wide=dtype == torch.float64, batch=batch, shortest=kind.short**2, smallest=smallest, **sizes
    )


_GIVEN = ("number", "memory", "address")
_SAVED = ("new_memory", "new_address")
_GRADIENTS = ("grad_new_memory", "grad_new_address", "grad_read")


def _problem(kind: HeadsKind, names: Sequence[str], tensors: Sequence[Tensor | None]) -> tuple[Any, list[Any]]:
    """The problem with these tensors, the numbers first, and the tensors that it points to. All are checked."""
    numbers: Any = tensors[0]
    batch, _ = check_shape("number", numbers.shape, (None, kind.numbers))
    memory, addresses = (batch, kind.slots, kind.width), (batch, kind.heads, kind.slots)
    shapes = {"read": (batch, kind.reads, kind.width), "number": (batch, kind.numbers)}
    shapes |= {"memory": memory, "new_memory": memory, "address": addresses, "new_address": addresses}
    for name, tensor in zip(names, tensors, strict=True):
        if tensor is not None or not name.startswith("grad_"):
            check_shape(name, None if tensor is None else tensor.shape, shapes[name.removeprefix("grad_")])
    held = dense(names, tensors, numbers.dtype)
    problem = library.HeadsStruct.from_buffer_copy(_plan(kind, batch, numbers.dtype))
    problem.threads = torch.get_num_threads()
    for name, tensor in zip(names, held, strict=True):
        setattr(problem, name, None if tensor is None else tensor.data_ptr())
    return problem, held


class _Access(torch.autograd.Function):
    """Autograd of `access`: its backward kernel, or the reference if the gradient itself is to be differentiated."""

    @staticmethod
    def forward(
        ctx: Any, kind: HeadsKind, reference: Reference, numbers: Tensor, memory: Tensor, addresses: Tensor
    ) -> Access:
        problem, held = _problem(kind, _GIVEN, (numbers, memory, addresses))
        new_memory, new_addresses = torch.empty_like(held[1]), torch.empty_like(held[2])
        read = held[1].new_empty(len(numbers), kind.reads, kind.width)
        problem.new_memory, problem.new_address = new_memory.data_ptr(), new_addresses.data_ptr()
        problem.read = read.data_ptr()
        library.run("heads_forward", problem)
        # The tensors as they were given: contiguous copies would have no history to differentiate twice.
        ctx.save_for_backward(numbers, memory, addresses, new_memory, new_addresses)
        ctx.kind, ctx.reference = kind, reference
        ctx.set_materialize_grads(False)
        return new_memory, new_addresses, read

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, None, *second_order(ctx.reference, saved[:3], gradients)
        problem, held = _problem(ctx.kind, (*_GIVEN, *_SAVED, *_GRADIENTS), (*saved, *gradients))
        results = [torch.empty_like(tensor) for tensor in held[:3]]
        problem.grad_number, problem.grad_memory, problem.grad_address = (result.data_ptr() for result in results)
        library.run("heads_backward", problem)
        return None, None, *results
