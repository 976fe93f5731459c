"""The kernels as PyTorch ops: `autapse::scan` and `autapse::scan_backward`, with shapes and autograd.

Both take the operands that src/abi.h lists, in its shapes; `Form.operands` gives those of a form. All arguments of
an op are checked before the library gets a pointer; see `autapse.native.operands`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.autograd import forward_ad

from autapse import checks
from autapse.native import library
from autapse.native.dispatch import is_plain
from autapse.native.memory import fresh
from autapse.native.operands import (
    DTYPES,
    KERNELS,
    TENSORS,
    Extent,
    Kind,
    Operands,
    Shape,
    check_dtype,
    check_fake,
    check_shape,
    check_shapes,
    dense,
)
from autapse.native.tangent import push

with torch.inference_mode(False):  # whoever imports this may be in that mode, and these tensors are used outside of it
    _NOTHING = {dtype: torch.empty(0, dtype=dtype, device="cpu") for dtype in DTYPES}  # in place of an unwanted result
Scan = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # h, h_n, c, c_n, reserve; empty if there is none

_OPERANDS = (
    "Tensor x, Tensor? weight, Tensor? bias, Tensor h0, Tensor? c0, Tensor matrix, Tensor? offset, Tensor? projection, "
    "Tensor? alpha, Tensor? beta, Tensor? pattern, Tensor? history"
)
_KIND = (
    "int form, int activation, int inner, bool reset_after, bool per_step, bool reverse, bool skip, int[] delays, "
    "float clip, float flow"
)
_library = torch.library.Library("autapse", "DEF")
_library.define(
    f"scan({_OPERANDS}, Tensor sizes, {_KIND}, bool keep_cells, bool save)"
    " -> (Tensor h, Tensor h_n, Tensor c, Tensor c_n, Tensor reserve)"
)
_library.define(
    "scan_backward(Tensor? grad_h, Tensor? grad_h_n, Tensor? grad_c, Tensor? grad_c_n, Tensor h, Tensor c, "
    f"Tensor reserve, {_OPERANDS}, Tensor sizes, {_KIND}, bool[] needed)"
    f" -> ({', '.join(['Tensor'] * len(Operands._fields))})"
)


def scan(operands: Operands, sizes: Tensor, kind: Kind, keep_cells: bool, save: bool) -> Scan:
    """The states of all steps and at the ends; `save` keeps what a backward pass or a forward derivative needs."""
    if not is_plain(*operands, sizes):
        return torch.ops.autapse.scan(*operands, sizes, *kind, keep_cells, save)
    tracked = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands)
    if tracked or forward_ad._current_level >= 0:
        return _Differentiable.apply(*operands, sizes, *kind, keep_cells, save)
    return _forward(operands, sizes, kind, keep_cells, save, shared=True)


class ScanPlan(NamedTuple):
    """What depends on the kind, the dtype and the shapes of a scan only, so that equal calls share it."""

    extent: Extent
    problem: library.ScanStruct  # without pointers; to be copied
    results: tuple[Shape, ...]  # the shapes of h, h_n, c, c_n and the reserve, if all are wanted
    present: tuple[tuple[int, str], ...]  # the index and the name of each of TENSORS that there is


def _plan(operands: Operands, sizes: Tensor, kind: Kind) -> ScanPlan:
    dtype = None if operands.x is None else operands.x.dtype
    return _cached_plan(kind, dtype, *[None if t is None else t.shape for t in (sizes, *operands)])


@lru_cache(maxsize=4096)
def _cached_plan(kind: Kind, dtype: torch.dtype, *shapes: Shape | None) -> ScanPlan:
    extent = check_shapes(kind, *shapes)
    check_dtype(dtype)
    problem = library.ScanStruct(wide=dtype == torch.float64, **kind._asdict())
    problem.steps, problem.rows, problem.batch, problem.inputs, problem.hidden, problem.outputs, _ = extent
    pattern = shapes[TENSORS.index("pattern")]
    problem.sparse, problem.connections = pattern is not None, 0 if pattern is None else pattern[1]
    present = tuple((n, name) for n, name in enumerate(TENSORS) if shapes[n] is not None)
    return ScanPlan(extent, problem, _result_shapes(extent, _reserve_columns(kind, extent, shapes[1:])), present)


def _reserve_columns(kind: Kind, extent: Extent, operands: Sequence[object]) -> int:
    """How many values the backward pass needs per row."""
    present = tuple(name for name, operand in zip(Operands._fields, operands, strict=True) if operand is not None)
    kind = kind._replace(clip=math.inf, flow=0.0)  # flow differs from batch to batch, and the cache has no bound
    return _cached_reserve_columns(kind, int(extent.hidden), int(extent.outputs), present)


@cache
def _cached_reserve_columns(kind: Kind, hidden: int, outputs: int, present: tuple[str, ...]) -> int:
    problem = library.ScanStruct(hidden=hidden, outputs=outputs, sparse="pattern" in present, **kind._asdict())
    for name in present:
        setattr(problem, name, 1)  # only whether it is null counts
    return library.native().autapse_reserve(ctypes.byref(problem))


def _result_shapes(extent: Extent, reserve_columns: int) -> tuple[Shape, ...]:
    _, rows, batch, _, hidden, outputs, cells = extent
    c, c_n = ((rows, hidden), (batch, hidden)) if cells else ((0,), (0,))
    return (rows, outputs), (batch, outputs), c, c_n, (rows, reserve_columns)


def _wanted(results: Sequence[Shape], keep_cells: bool, save: bool) -> list[Shape]:
    h, h_n, c, c_n, reserve = results
    return [h, h_n, c if keep_cells or save else (0,), c_n, reserve if save else (0,)]


class Described(NamedTuple):
    """A problem without its results, and the tensors that it points to, which must live as long as it does."""

    problem: library.ScanStruct
    operands: Operands
    sizes: Tensor
    plan: ScanPlan


def describe_problem(operands: Operands, sizes: Tensor, kind: Kind) -> Described:
    """The problem of a scan. All is checked here except the values of `sizes`, which the library checks."""
    plan = _plan(operands, sizes, kind)
    held = dense(TENSORS, (sizes, *operands), operands.x.dtype)
    problem = library.ScanStruct.from_buffer_copy(plan.problem)
    problem.threads = torch.get_num_threads()
    for n, name in plan.present:
        setattr(problem, name, held[n].data_ptr())
    return Described(problem, Operands(*held[1:]), held[0], plan)


def fail_malformed(operands: Operands, sizes: Tensor, extent: Extent, reverse: bool) -> NoReturn:
    """Say what `pattern` or `sizes` must be, after the library refused them."""
    pattern = operands.pattern
    if pattern is not None and not _is_sorted(pattern, extent.hidden):
        rule = f"have rows and columns from 0 to {extent.hidden - 1}, sorted by row and then by column, none twice"
        checks.fail("pattern", rule, pattern[:, :4].tolist())
    words = "all be the same" if reverse else "never grow"
    rule = f"{words}, be from 0 to the batch size {extent.batch} and sum to the {extent.rows} rows of x"
    checks.fail("sizes", rule, checks.brief(sizes), kind=checks.ShapeError)


def _is_sorted(pattern: Tensor, hidden: int) -> bool:  # [2, n]
    order = pattern[0] * hidden + pattern[1]
    return bool(((pattern >= 0) & (pattern < hidden)).all() and (order[1:] > order[:-1]).all())


def _forward(
    operands: Operands,
    sizes: Tensor,
    kind: Kind,
    keep_cells: bool,
    save: bool,
    shared: bool = False,  # whether results that are not wanted may be the same empty tensor, as they may not in an op
) -> Scan:
    problem, operands, sizes, plan = describe_problem(operands, sizes, kind)
    wanted, x = _wanted(plan.results, keep_cells, save), operands.x
    results = [_NOTHING[x.dtype] if shared and shape == (0,) else fresh(x, shape) for shape in wanted]
    h, h_n, c, c_n, reserve = results
    problem.h, problem.h_n, problem.c_n = h.data_ptr(), h_n.data_ptr(), c_n.data_ptr()
    problem.c = c.data_ptr() if plan.extent.cells and (keep_cells or save) else None
    problem.reserve = reserve.data_ptr() if save else None
    if not library.run("forward", problem):
        fail_malformed(operands, sizes, plan.extent, kind.reverse)
    return tuple(results)  # type: ignore[return-value]


_SAVED = ("grad_h", "grad_h_n", "grad_c", "grad_c_n", "h", "c", "reserve")


def _backward(
    saved: Sequence[Tensor | None], operands: Operands, sizes: Tensor, kind: Kind, needed: list[bool]
) -> tuple[Tensor, ...]:
    problem, operands, sizes, plan = describe_problem(operands, sizes, kind)
    _check_saved(saved, plan.results)
    if not len(operands.h0):  # empty tensors have no address, so the kernels could not tell which are there
        return _gradients(Tensor.new_zeros, operands, needed)
    held = dense(_SAVED, saved, operands.x.dtype)
    results = _gradients(fresh, operands, needed)
    for name, tensor in zip(_SAVED, held, strict=True):
        setattr(problem, name, None if tensor is None else tensor.data_ptr())
    for name, result in zip(Operands._fields, results, strict=True):
        setattr(problem, f"grad_{name}", result.data_ptr() if result.numel() else None)
    if not library.run("backward", problem):
        fail_malformed(operands, sizes, plan.extent, kind.reverse)
    return results


def _check_saved(saved: Sequence[Tensor | None], results: Sequence[Shape]) -> None:
    """The gradients of a scan's results, and the results that were saved, must have the shapes of the results."""
    h, h_n, c, c_n, reserve = results
    for name, tensor, shape in zip(_SAVED, saved, (h, h_n, c, c_n, h, c, reserve), strict=True):
        if tensor is not None and tensor.shape != shape:
            check_shape(name, tensor.shape, shape)
        if tensor is None and not name.startswith("grad"):
            check_shape(name, None, shape)


def _gradients(make: Callable[[Tensor, Shape], Tensor], operands: Operands, needed: list[bool]) -> tuple[Tensor, ...]:
    if len(needed) != len(operands):
        checks.fail("needed", f"have {len(operands)} entries, one per operand", needed)
    # The indices of a sparse matrix have none, whatever the caller asks for.
    wanted = [t is not None and t.is_floating_point() and need for t, need in zip(operands, needed, strict=True)]
    shapes = [() if t is None else t.shape for t in operands]
    return tuple(make(operands.x, shape if want else (0,)) for shape, want in zip(shapes, wanted, strict=True))


# The ops ------------------------------------------------------------------------------------------------------------


def _split(arguments: tuple[Any, ...]) -> tuple[Operands, Tensor, Kind, tuple[Any, ...]]:
    """The flat arguments of an op as operands, sizes, kind and the rest."""
    count, kinds = len(Operands._fields), len(Kind._fields)
    rest = arguments[count + 1 :]
    kind = Kind(*rest[:kinds])
    kind = kind._replace(delays=tuple(kind.delays))  # an op gets a list
    return Operands(*arguments[:count]), arguments[count], kind, tuple(rest[kinds:])


def _scan(*arguments: Any) -> Scan:
    operands, sizes, kind, rest = _split(arguments)
    return _forward(operands, sizes, kind, *rest)


def _scan_backward(*arguments: Any) -> tuple[Tensor, ...]:
    operands, sizes, kind, (needed,) = _split(arguments[len(_SAVED) :])
    return _backward(arguments[: len(_SAVED)], operands, sizes, kind, needed)


def _empty(like: Tensor, shape: Shape) -> Tensor:
    return like.new_empty(shape)


def _fake_shapes(operands: Operands, sizes: Tensor, kind: Kind) -> tuple[Shape, ...]:
    extent = check_fake(operands, sizes, kind)  # sizes may be symbols, so nothing is cached
    return _result_shapes(extent, _reserve_columns(kind, extent, operands))


def _scan_fake(*arguments: Any) -> Scan:
    operands, sizes, kind, rest = _split(arguments)
    shapes = _wanted(_fake_shapes(operands, sizes, kind), *rest)
    return tuple(_empty(operands.x, shape) for shape in shapes)  # type: ignore[return-value]


def _scan_backward_fake(*arguments: Any) -> tuple[Tensor, ...]:
    operands, sizes, kind, (needed,) = _split(arguments[len(_SAVED) :])
    _check_saved(arguments[: len(_SAVED)], _fake_shapes(operands, sizes, kind))
    return _gradients(_empty, operands, needed)


_library.impl("scan", _scan, "CPU")
_library.impl("scan_backward", _scan_backward, "CPU")
torch.library.register_fake("autapse::scan", _scan_fake)
torch.library.register_fake("autapse::scan_backward", _scan_backward_fake)


class _Differentiable(torch.autograd.Function):
    """Autograd of `scan`: its backward op, or the reference if the gradient itself is to be differentiated.

    `torch.library.register_autograd` would do the same, but it parses the op's schema at each call, which costs as much
    as a hundred steps of a small network.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Scan:
        operands, sizes, kind, (keep_cells, save) = _split(arguments)
        if is_plain(*operands, sizes):
            results = _forward(operands, sizes, kind, keep_cells, save)
        else:
            with torch._C._AutoDispatchBelowAutograd():
                results = torch.ops.autapse.scan.default(*arguments)
        h, _, c, _, reserve = results
        ctx.save_for_backward(h, c, reserve, sizes, *operands)
        ctx.save_for_forward(h, c, reserve, sizes, *operands)
        ctx.kind, ctx.saved = kind, save
        ctx.mark_non_differentiable(reserve)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        h, c, reserve, sizes, *inputs = ctx.saved_tensors
        operands, kind = Operands(*inputs), ctx.kind
        needed = list(ctx.needs_input_grad[: len(operands)])
        rest = [None] * (3 + len(kind))
        if torch.is_grad_enabled():
            return *_second_order(operands, sizes, kind, gradients[:4], needed), *rest
        if not ctx.saved:
            raise RuntimeError("scan was called with save=False, so it has no gradient. Call it with save=True.")
        saved = (*gradients[:4], h, c, reserve)
        if is_plain(*saved, *operands, sizes):
            results = _backward(saved, operands, sizes, kind, needed)
        else:
            results = torch.ops.autapse.scan_backward(*saved, *operands, sizes, *kind, needed)
        return *(g if wanted else None for g, wanted in zip(results, needed, strict=True)), *rest

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor | None, ...]:
        """The forward derivative: one more scan, which is linear."""
        if not ctx.saved or torch.is_grad_enabled():
            raise RuntimeError("The forward derivative of a scan needs save=True and torch.no_grad().")
        h, c, reserve, sizes, *inputs = ctx.saved_tensors
        moved = Operands(*tangents[: len(Operands._fields)])
        return *push(_forward, Operands(*inputs), moved, (h, c, reserve), sizes, ctx.kind), None


def _second_order(
    operands: Operands, sizes: Tensor, kind: Kind, gradients: Sequence[Tensor | None], needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The gradient of the scan as a function that autograd can differentiate again: that of the form's reference."""
    if kind.flow:
        raise NotImplementedError("information_flow has no second derivative. Set it to 0 for create_graph=True.")
    # Views, so that autograd differentiates with respect to the operands themselves and not to what they depend on.
    views: list[Any] = [None if t is None else t.view_as(t) for t in operands]
    outputs = KERNELS[kind.form].reference_scan(Operands(*views), sizes, kind)
    pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if o is not None and g is not None]
    inputs = [t for t, need in zip(views, needed, strict=True) if need]
    values = iter(
        torch.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], create_graph=True, allow_unused=True)
    )
    return tuple(next(values) if need else None for need in needed)


def _scan_autograd(*arguments: Any) -> Scan:
    if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in arguments):
        return _Differentiable.apply(*arguments)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.autapse.scan.default(*arguments)


_library.impl("scan", _scan_autograd, "Autograd")
