"""The kernels as PyTorch ops: `autapse::scan` and `autapse::scan_backward`, with shapes and autograd.

Both take what src/abi.h lists, in its shapes; `autapse.unfold.fused` builds that from a form.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse.native import library

FORMS = ("leaky", "chain", "shared_gate", "ugrnn", "gru", "lstm")
ACTIVATIONS = ("tanh", "relu", "sigmoid", "identity", "modrelu")
DTYPES = (torch.float32, torch.float64)
HUGE = 4 << 20  # bytes from which fresh memory is asked for in huge pages


class Operands(NamedTuple):
    """The tensors of a scan, in the order of the ops' arguments. None is for what a form does not have."""

    x: Tensor  # [N, D], or the drive [N, G] without a weight
    weight: Tensor | None  # [G, D]
    bias: Tensor | None  # [G]
    h0: Tensor  # [B, O]
    c0: Tensor | None  # [B, H]
    matrix: Tensor
    offset: Tensor | None
    projection: Tensor | None
    alpha: Tensor | None
    beta: Tensor | None


class Kind(NamedTuple):
    """Which recurrence a scan is, in the order of the ops' arguments."""

    form: int  # index into FORMS
    activation: int = 0  # index into ACTIVATIONS
    inner: int = 1  # inner steps of a leaky form, maps of a chain
    reset_after: bool = True
    per_step: bool = False  # leaky: alpha and beta are [T, K], not [H]
    reverse: bool = False  # the last step comes first; for sequences of one length


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


def describe_problem(operands: Operands, sizes: Tensor, kind: Kind) -> library.Problem:
    """The problem without its results. Operands are contiguous."""
    problem = library.Problem()
    problem.form, problem.activation, problem.inner = kind.form, kind.activation, kind.inner
    problem.reset_after, problem.per_step, problem.reverse = kind.reset_after, kind.per_step, kind.reverse
    problem.wide = operands.x.dtype == torch.float64
    problem.threads = torch.get_num_threads()
    problem.steps, problem.batch, problem.outputs = len(sizes), operands.h0.shape[0], operands.h0.shape[1]
    problem.hidden, problem.inputs = hidden_size(operands), operands.x.shape[1]
    problem.sizes = sizes.data_ptr()
    for name, tensor in zip(Operands._fields, operands, strict=True):
        setattr(problem, name, _address(tensor))
    return problem


def hidden_size(operands: Operands) -> int:
    return operands.h0.shape[1] if operands.c0 is None else operands.c0.shape[1]


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def contiguous(tensors: Any) -> Any:
    """Each tensor as the kernels read it."""
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def _plain(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape)


def fresh(like: Tensor, *shape: int) -> Tensor:
    """Memory for results: page faults on small pages would cost as much as the arithmetic."""
    made = _plain(like, *shape)
    if made.nbytes >= HUGE and made.device.type == "cpu" and library.available():
        library.load().library.autapse_huge_pages(made.data_ptr(), made.nbytes)
    return made


def _reserve_columns(operands: Operands, kind: Kind) -> int:
    """How much a row's backward pass needs."""
    there = tuple(name for name, tensor in zip(Operands._fields, operands, strict=True) if tensor is not None)
    return _ask_reserve(kind, int(hidden_size(operands)), int(operands.h0.shape[1]), there)


@cache
def _ask_reserve(kind: Kind, hidden: int, outputs: int, there: tuple[str, ...]) -> int:
    """The kernels know."""
    problem = library.Problem(form=kind.form, activation=kind.activation, inner=kind.inner)
    problem.reset_after, problem.per_step = kind.reset_after, kind.per_step
    problem.hidden, problem.outputs = hidden, outputs
    for name in there:
        setattr(problem, name, 1)  # whether it is there is all that counts
    return library.load().library.autapse_reserve(ctypes.byref(problem))


def _results(
    make: Callable[..., Tensor], operands: Operands, kind: Kind, keep_cells: bool, save: bool
) -> tuple[Tensor, ...]:
    rows, batch, outputs = operands.x.shape[0], operands.h0.shape[0], operands.h0.shape[1]
    hidden = hidden_size(operands)
    cells = operands.c0 is not None
    return (
        make(operands.x, rows, outputs),
        make(operands.x, batch, outputs),
        make(operands.x, rows, hidden) if cells and (keep_cells or save) else make(operands.x, 0),
        make(operands.x, batch, hidden) if cells else make(operands.x, 0),
        make(operands.x, rows, _reserve_columns(operands, kind)) if save else make(operands.x, 0),
    )


def _split(arguments: tuple[Any, ...]) -> tuple[Operands, Tensor, Kind, tuple[Any, ...]]:
    count, kinds = len(Operands._fields), len(Kind._fields)
    operands = Operands(*arguments[:count])
    rest = arguments[count + 1 :]
    return operands, arguments[count], Kind(*rest[:kinds]), tuple(rest[kinds:])


def _scan(*arguments: Any) -> Scan:
    operands, sizes, kind, (keep_cells, save) = _split(arguments)
    operands = Operands(*contiguous(operands))
    results = _results(fresh, operands, kind, keep_cells, save)
    problem = describe_problem(operands, sizes, kind)
    h, h_n, c, c_n, reserve = results
    problem.h, problem.h_n, problem.c_n = h.data_ptr(), h_n.data_ptr(), c_n.data_ptr()
    problem.c = c.data_ptr() if operands.c0 is not None and (keep_cells or save) else None
    problem.reserve = reserve.data_ptr() if save else None
    library.run("forward", problem)
    return results  # type: ignore[return-value]


def _scan_fake(*arguments: Any) -> Scan:
    operands, _, kind, (keep_cells, save) = _split(arguments)
    return _results(_plain, operands, kind, keep_cells, save)  # type: ignore[return-value]


def _scan_backward(*arguments: Any) -> tuple[Tensor, ...]:
    grads, (h, c, reserve), rest = contiguous(arguments[:4]), arguments[4:7], arguments[7:]
    operands, sizes, kind, (needed,) = _split(rest)
    operands = Operands(*contiguous(operands))
    results = _gradients(fresh, operands, needed)
    problem = describe_problem(operands, sizes, kind)
    problem.h, problem.reserve = h.data_ptr(), reserve.data_ptr()
    problem.c = None if operands.c0 is None else c.data_ptr()
    for name, gradient in zip(("grad_h", "grad_h_n", "grad_c", "grad_c_n"), grads, strict=True):
        setattr(problem, name, _address(gradient))
    for name, wanted, result in zip(Operands._fields, needed, results, strict=True):
        setattr(problem, f"grad_{name}", result.data_ptr() if wanted else None)
    library.run("backward", problem)
    return results


def _gradients(make: Callable[..., Tensor], operands: Operands, needed: list[bool]) -> tuple[Tensor, ...]:
    pairs = zip(operands, needed, strict=True)
    return tuple(make(operands.x, *(t.shape if wanted and t is not None else (0,))) for t, wanted in pairs)


def _scan_backward_fake(*arguments: Any) -> tuple[Tensor, ...]:
    operands, _, _, (needed,) = _split(arguments[7:])
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
