"""The scan of a form by the native kernels: what each form's operands are, and the way to second derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.cells.base import Cell
from autapse.forms import Chain, Form, GatedRecurrent, Leaky, LongShortTerm, SharedGate, State, UpdateGate
from autapse.native import library, ops
from autapse.native.operands import ACTIVATIONS, DTYPES, FORMS, Kind, Operands
from autapse.unfold.reference import Note, Scanned, walk

KERNELS = (Leaky, Chain, SharedGate, UpdateGate, GatedRecurrent, LongShortTerm)


def can_fuse(cell: Cell, weights: Any, x: Tensor, state: State) -> Form | None:
    """The form whose kernel can run this cell on this input; None where the reference has to."""
    form = cell.fused(weights) if kernels_serve(x) else None
    if form is None or type(form) not in KERNELS:  # a user's form may derive from one of ours and have another step
        return None
    tensors = (*state, *cell.parameters(), *cell.buffers())
    return form if all(t.dtype == x.dtype and t.device == x.device for t in tensors) else None


def kernels_serve(x: Tensor) -> bool:
    """Whether the kernels can take such a tensor here and now."""
    if x.device.type != "cpu":
        return False
    if not library.available():
        library.warn_if_missing()
        return False
    return (
        x.dtype in DTYPES
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()  # vmap and its kin look inside
        and torch.autograd.forward_ad._current_level < 0
    )


def scan_fused(
    cell: Cell,
    x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # how many sequences are running at each step; never grows; sums to N
    start: int = 0,  # position of the first step
    keep: bool = True,  # all states of each step, not only the first, which is the output
    form: Form | None = None,  # what cell.fused gives, where the caller has it
    reverse: bool = False,  # from the last step to the first; for sequences of one length
    note: Note | None = None,  # gets the report of each step that is solved; a kernel solves none
) -> Scanned:
    """The states after each step and at each sequence's own end."""
    form = cell.fused(cell.prepare()) if form is None else form
    assert form is not None, f"{type(cell).__name__} has no form."
    affine = cell.affine() if type(cell).drive is Cell.drive else None
    if affine is None:
        x, weight, bias = cell.drive(x), None, None
    else:
        weight, bias = affine
    operands, kind = describe(form, x, weight, bias, state, len(sizes), start)
    kind = kind._replace(reverse=reverse)
    save = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands)
    keep = keep or type(cell).output is not Cell.output
    h, h_n, c, c_n, _ = ops.scan(operands, _tensor(sizes), kind, keep, save)
    if len(state) == 1:
        return (h,), (h_n,)
    return (h, c) if keep else (h,), (h_n, c_n)


def _tensor(sizes: Sequence[int]) -> Tensor:
    if sizes and sizes[0] == sizes[-1]:  # many times quicker than going through a long list
        return torch.full((len(sizes),), sizes[0], dtype=torch.int64)
    return torch.tensor(sizes, dtype=torch.int64)


def describe(
    form: Form, x: Tensor, weight: Tensor | None, bias: Tensor | None, state: State, steps: int, start: int
) -> tuple[Operands, Kind]:
    """The operands of the native scan for a form."""
    h0, c0 = state if len(state) > 1 else (state[0], None)
    code = FORMS.index(form.name)
    offset = projection = alpha = beta = None
    kind = Kind(code)
    match form:
        case Leaky():
            matrix, offset = form.matrix, form.threshold
            alpha, beta, per_step = _mixing(form, steps, start)
            kind = Kind(code, ACTIVATIONS.index(form.activation), form.inner_steps, per_step=per_step)
        case Chain():
            matrix, offset = torch.stack(form.matrices), torch.stack(form.biases)
            kind = Kind(code, ACTIVATIONS.index(form.activation), len(form.matrices))
        case SharedGate():
            matrix = form.matrix
            alpha, beta = (_each_step(pair, form.matrix, steps) for pair in (form.candidate, form.carry))
        case UpdateGate():
            matrix = form.matrix
        case GatedRecurrent():
            matrix, offset = form.matrix, form.bias
            kind = Kind(code, reset_after=form.reset_after)
        case LongShortTerm():
            matrix, offset, projection = form.matrix, form.peepholes, form.projection
        case _:
            raise NotImplementedError(f"The native library has no kernel for the form {form.name}.")
    return Operands(x, weight, bias, h0, c0, matrix, offset, projection, alpha, beta), kind


def _mixing(form: Leaky, steps: int, start: int) -> tuple[Tensor | None, Tensor | None, bool]:
    """α and β as [H] or [T, K] tensors, None where they are 1 and 0, and whether they are per step."""
    pair = (form.alpha, form.beta)
    if not any(isinstance(value, Tensor) for value in pair) and pair == (1.0, 0.0):
        return None, None, False
    per_unit = any(isinstance(value, Tensor) and value.dim() == 1 for value in pair)
    shape = (form.matrix.shape[0],) if per_unit else (steps, form.inner_steps)
    alpha, beta = (_expanded(value, shape, form.matrix, start) for value in pair)
    return alpha, beta, not per_unit


def _expanded(value: float | Tensor, shape: tuple[int, ...], like: Tensor, start: int) -> Tensor:
    if not isinstance(value, Tensor):
        return like.new_full(shape, value)
    if value.dim() == 2:  # [S, K], the last row holding past S
        rows = torch.arange(start, start + shape[0], device=value.device).clamp_(max=len(value) - 1)
        return value.index_select(0, rows)
    return value.expand(shape)


def _each_step(pair: tuple[float | Tensor, float | Tensor], like: Tensor, steps: int) -> Tensor:
    values = [value if isinstance(value, Tensor) else like.new_full((), value) for value in pair]
    return torch.stack(values).expand(steps, 2)


def _form(operands: Operands, kind: Kind) -> Form:
    """The form that `describe` took apart."""
    activation = ACTIVATIONS[kind.activation]
    match FORMS[kind.form]:
        case "leaky":
            alpha = 1.0 if operands.alpha is None else operands.alpha
            beta = 0.0 if operands.beta is None else operands.beta
            return Leaky(operands.matrix, activation, alpha, beta, kind.inner, operands.offset)
        case "chain":
            biases = () if operands.offset is None else operands.offset.unbind(0)
            return Chain(operands.matrix.unbind(0), biases, activation)
        case "shared_gate":  # the same at each step, so the first row's gradient is that of all
            p, q = (pair[:1].sum(0).unbind(0) for pair in (operands.alpha, operands.beta))  # type: ignore[index]
            return SharedGate(operands.matrix, (p[0], p[1]), (q[0], q[1]))
        case "ugrnn":
            return UpdateGate(operands.matrix)
        case "gru":
            return GatedRecurrent(operands.matrix, operands.offset, kind.reset_after)
        case _:
            return LongShortTerm(operands.matrix, operands.offset, operands.projection)


def scan_operands(operands: Operands, sizes: Tensor, kind: Kind) -> list[Tensor | None]:
    """What the native scan computes, by the reference: h, h_n, c, c_n, the last two None where there are no cells."""
    drive = operands.x if operands.weight is None else F.linear(operands.x, operands.weight, operands.bias)
    state = (operands.h0,) if operands.c0 is None else (operands.h0, operands.c0)
    steps = len(sizes)

    def turn(rows: Tensor) -> Tensor:
        turned = kind.reverse and len(rows) > 0
        return rows.reshape(steps, -1, rows.shape[1]).flip(0).flatten(0, 1) if turned else rows

    states, final = walk(_form(operands, kind).step, turn(drive), state, sizes.tolist(), 0)
    states = tuple(turn(rows) for rows in states)
    return [states[0], final[0], *((states[1], final[1]) if operands.c0 is not None else (None, None))]


def _second_order(
    operands: Operands, sizes: Tensor, kind: Kind, gradients: Sequence[Tensor | None], needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The gradient of the scan as a function that autograd can differentiate again: through the reference."""
    # Views of the operands, so that the gradient is asked for at these points of the graph and not further up.
    views: list[Any] = [None if t is None else t.view_as(t) for t in operands]
    outputs = scan_operands(Operands(*views), sizes, kind)
    pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if o is not None and g is not None]
    wanted = [t for t, need in zip(views, needed, strict=True) if need]
    found = iter(
        torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True)
    )
    return tuple(next(found) if need else None for need in needed)


ops.register_second_order(_second_order)
