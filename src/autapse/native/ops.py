"""The kernels as PyTorch ops: `autapse::scan` and `autapse::scan_backward`, with shapes and autograd.

Both take what src/abi.h lists, in its shapes; `autapse.unfold.fused` builds that from a form. Whatever an op is called
with, it checks it before the library gets a pointer; see `autapse.native.operands`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from autapse import checks
from autapse.native import library
from autapse.native.operands import (
    Extent,
    Kind,
    Operands,
    Shape,
    check_dtype,
    check_scan,
    check_scan_fake,
    check_shape,
    dense,
)

HUGE = 4 << 20  # bytes from which fresh memory is asked for in huge pages


Scan = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # h, h_n, c, c_n, reserve; empty where there is none

_OPERANDS = (
    "Tensor x, Tensor? weight, Tensor? bias, Tensor h0, Tensor? c0, Tensor matrix, Tensor? offset, Tensor? projection, "
    "Tensor? alpha, Tensor? beta"
)
_KIND = "int form, int activation, int inner, bool reset_after, bool per_step, bool reverse"
_library = torch.library.Library("autapse", "DEF")
_library.define(
    f"scan({_OPERANDS}, Tensor sizes, {_KIND}, bool keep_cells, bool save)"
    " -> (Tensor h, Tensor h_n, Tensor c, Tensor c_n, Tensor reserve)"
)
_library.define(
    "scan_backward(Tensor? grad_h, Tensor? grad_h_n, Tensor? grad_c, Tensor? grad_c_n, Tensor h, Tensor c, "
    f"Tensor reserve, {_OPERANDS}, Tensor sizes, {_KIND}, bool[] needed)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def scan(operands: Operands, sizes: Tensor, kind: Kind, keep_cells: bool, save: bool) -> Scan:
    """The states of all steps and at the ends; `save` keeps what a backward pass needs."""
    return torch.ops.autapse.scan(*operands, sizes, *kind, keep_cells, save)


class Described(NamedTuple):
    """A problem without its results, and the tensors that it points to, which must live as long as it does."""

    problem: library.ScanStruct
    operands: Operands
    sizes: Tensor
    extent: Extent


def describe_problem(operands: Operands, sizes: Tensor, kind: Kind) -> Described:
    """The problem of a scan, all of it checked but the values of `sizes`, which the library checks."""
    extent = check_scan(operands, sizes, kind)
    dtype = operands.x.dtype
    check_dtype(dtype)
    operands = Operands(*dense(Operands._fields, operands, dtype))
    (sizes,) = dense(("sizes",), (sizes,), torch.int64)
    problem = library.ScanStruct()
    problem.form, problem.activation, problem.inner = kind.form, kind.activation, kind.inner
    problem.reset_after, problem.per_step, problem.reverse = kind.reset_after, kind.per_step, kind.reverse
    problem.wide = dtype == torch.float64
    problem.threads = torch.get_num_threads()
    problem.steps, problem.rows, problem.batch, problem.inputs, problem.hidden, problem.outputs, _ = extent
    problem.sizes = sizes.data_ptr()
    for name, tensor in zip(Operands._fields, operands, strict=True):
        if tensor is not None:
            setattr(problem, name, tensor.data_ptr())
    return Described(problem, operands, sizes, extent)


def fail_sizes(sizes: Tensor, extent: Extent, reverse: bool) -> NoReturn:
    """Say what `sizes` must be, after the library did not take them."""
    words = "all be the same" if reverse else "never grow"
    rule = f"{words}, be from 0 to the batch size {extent.batch} and sum to the {extent.rows} rows of x"
    values = sizes.tolist()
    checks.fail("sizes", rule, [*values[:8], "..."] if len(values) > 8 else values, kind=checks.ShapeError)


def _plain(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape)


def fresh(like: Tensor, *shape: int) -> Tensor:
    """Memory for results: page faults on small pages would cost as much as the arithmetic."""
    made = _plain(like, *shape)
    if made.nbytes >= HUGE and made.device.type == "cpu" and library.available():
        library.load().library.autapse_huge_pages(made.data_ptr(), made.nbytes)
    return made


def _reserve_columns(operands: Operands, kind: Kind, extent: Extent) -> int:
    """How much a row's backward pass needs."""
    there = tuple(name for name, tensor in zip(Operands._fields, operands, strict=True) if tensor is not None)
    return _ask_reserve(kind, int(extent.hidden), int(extent.outputs), there)


@cache
def _ask_reserve(kind: Kind, hidden: int, outputs: int, there: tuple[str, ...]) -> int:
    """The kernels know."""
    problem = library.ScanStruct(form=kind.form, activation=kind.activation, inner=kind.inner)
    problem.reset_after, problem.per_step = kind.reset_after, kind.per_step
    problem.hidden, problem.outputs = hidden, outputs
    for name in there:
        setattr(problem, name, 1)  # whether it is there is all that counts
    return library.native().autapse_reserve(ctypes.byref(problem))


def _result_shapes(operands: Operands, kind: Kind, extent: Extent, keep_cells: bool, save: bool) -> list[Shape]:
    """The shapes of h, h_n, c, c_n and the reserve."""
    _, rows, batch, _, hidden, outputs, cells = extent
    return [
        (rows, outputs),
        (batch, outputs),
        (rows, hidden) if cells and (keep_cells or save) else (0,),
        (batch, hidden) if cells else (0,),
        (rows, _reserve_columns(operands, kind, extent)) if save else (0,),
    ]


def _split(arguments: tuple[Any, ...]) -> tuple[Operands, Tensor, Kind, tuple[Any, ...]]:
    count, kinds = len(Operands._fields), len(Kind._fields)
    operands = Operands(*arguments[:count])
    rest = arguments[count + 1 :]
    return operands, arguments[count], Kind(*rest[:kinds]), tuple(rest[kinds:])


def _scan(*arguments: Any) -> Scan:
    operands, sizes, kind, (keep_cells, save) = _split(arguments)
    problem, operands, sizes, extent = describe_problem(operands, sizes, kind)
    results = [fresh(operands.x, *shape) for shape in _result_shapes(operands, kind, extent, keep_cells, save)]
    h, h_n, c, c_n, reserve = results
    problem.h, problem.h_n, problem.c_n = h.data_ptr(), h_n.data_ptr(), c_n.data_ptr()
    problem.c = c.data_ptr() if extent.cells and (keep_cells or save) else None
    problem.reserve = reserve.data_ptr() if save else None
    if not library.run("forward", problem):
        fail_sizes(sizes, extent, kind.reverse)
    return tuple(results)  # type: ignore[return-value]


def _scan_fake(*arguments: Any) -> Scan:
    operands, sizes, kind, (keep_cells, save) = _split(arguments)
    extent = check_scan_fake(operands, sizes, kind)
    shapes = _result_shapes(operands, kind, extent, keep_cells, save)
    return tuple(_plain(operands.x, *shape) for shape in shapes)  # type: ignore[return-value]


_SAVED = ("grad_h", "grad_h_n", "grad_c", "grad_c_n", "h", "c", "reserve")


def _scan_backward(*arguments: Any) -> tuple[Tensor, ...]:
    saved, rest = arguments[: len(_SAVED)], arguments[len(_SAVED) :]
    operands, sizes, kind, (needed,) = _split(rest)
    problem, operands, sizes, extent = describe_problem(operands, sizes, kind)
    _check_saved(saved, operands, kind, extent)
    held = dense(_SAVED, saved, operands.x.dtype)
    results = _gradients(fresh, operands, needed)
    for name, tensor in zip(_SAVED, held, strict=True):
        setattr(problem, name, None if tensor is None else tensor.data_ptr())
    for name, result in zip(Operands._fields, results, strict=True):
        setattr(problem, f"grad_{name}", result.data_ptr() if result.numel() else None)
    if not library.run("backward", problem):
        fail_sizes(sizes, extent, kind.reverse)
    return results


def _check_saved(saved: tuple[Any, ...], operands: Operands, kind: Kind, extent: Extent) -> None:
    """The gradients of a scan's results and what it saved have the shapes of the results."""
    h, h_n, c, c_n, reserve = _result_shapes(operands, kind, extent, keep_cells=True, save=True)
    for name, tensor, shape in zip(_SAVED, saved, (h, h_n, c, c_n, h, c, reserve), strict=True):
        if tensor is not None and tensor.shape != shape:
            check_shape(name, tensor.shape, shape)
        if tensor is None and not name.startswith("grad"):
            check_shape(name, None, shape)


def _gradients(make: Callable[..., Tensor], operands: Operands, needed: list[bool]) -> tuple[Tensor, ...]:
    if len(needed) != len(operands):
        checks.fail("needed", f"have {len(operands)} entries, one per operand", needed)
    pairs = zip(operands, needed, strict=True)
    return tuple(make(operands.x, *(t.shape if wanted and t is not None else (0,))) for t, wanted in pairs)


def _scan_backward_fake(*arguments: Any) -> tuple[Tensor, ...]:
    saved, rest = arguments[: len(_SAVED)], arguments[len(_SAVED) :]
    operands, sizes, kind, (needed,) = _split(rest)
    _check_saved(saved, operands, kind, check_scan_fake(operands, sizes, kind))
    return _gradients(_plain, operands, needed)


_library.impl("scan", _scan, "CPU")
_library.impl("scan_backward", _scan_backward, "CPU")
torch.library.register_fake("autapse::scan", _scan_fake)
torch.library.register_fake("autapse::scan_backward", _scan_backward_fake)


class _Differentiable(torch.autograd.Function):
    """Autograd of `scan`: its backward op, or `second_order` where the gradient is itself to be differentiated.

    `torch.library.register_autograd` would do the same, but reads the op's schema anew at each call, which costs as
    much as a hundred steps of a small network.
    """

    second_order: Callable[..., tuple[Tensor | None, ...]]

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Scan:
        operands, sizes, kind, (_, save) = _split(arguments)
        with torch._C._AutoDispatchBelowAutograd():
            results = torch.ops.autapse.scan.default(*arguments)
        h, _, c, _, reserve = results
        ctx.save_for_backward(h, c, reserve, sizes, *operands)
        ctx.kind, ctx.saved = kind, save
        ctx.mark_non_differentiable(reserve)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        h, c, reserve, sizes, *saved = ctx.saved_tensors
        operands, kind = Operands(*saved), ctx.kind
        needed = list(ctx.needs_input_grad[: len(operands)])
        rest = [None] * (3 + len(kind))
        if torch.is_grad_enabled():
            return *_Differentiable.second_order(operands, sizes, kind, gradients[:4], needed), *rest
        if not ctx.saved:
            raise RuntimeError("scan was called with save=False, so it has no gradient. Call it with save=True.")
        gh, gh_n, gc, gc_n, _ = gradients
        found = torch.ops.autapse.scan_backward(gh, gh_n, gc, gc_n, h, c, reserve, *operands, sizes, *kind, needed)
        return *(g if wanted else None for g, wanted in zip(found, needed, strict=True)), *rest


def _scan_autograd(*arguments: Any) -> Scan:
    if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in arguments):
        return _Differentiable.apply(*arguments)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.autapse.scan.default(*arguments)


_library.impl("scan", _scan_autograd, "Autograd")


def register_second_order(second_order: Callable[..., tuple[Tensor | None, ...]]) -> None:
    """What differentiates the gradient of `scan` again; this folder knows no other implementation of a form."""
    _Differentiable.second_order = staticmethod(second_order)
