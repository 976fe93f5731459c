"""The scan of a form by the native kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from autapse.cells.base import Cell
from autapse.forms import Form, State
from autapse.native import ops
from autapse.native.dispatch import kernels_serve
from autapse.native.operands import KERNELS, Kind, Operands
from autapse.unfold.reference import Note, Scanned


def can_fuse(cell: Cell, weights: Any, x: Tensor, state: State) -> Form | None:
    """The form whose kernel can run this cell on this input; None if the reference must."""
    if not kernels_serve(x, *state, *_tensors(cell)):
        return None
    form = cell.fused(weights)
    return form if type(form) in KERNELS else None  # a user's form may derive from one of ours and have another step


def _tensors(cell: Cell) -> Iterator[Tensor]:
    if cell._modules:
        return chain(cell.parameters(), cell.buffers())
    # The same for a cell without modules inside, many times faster.
    return (t for t in (*cell._parameters.values(), *cell._buffers.values()) if t is not None)


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
    kind = kind._replace(reverse=True) if reverse else kind
    save = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands)
    keep = keep or type(cell).output is not Cell.output
    h, h_n, c, c_n, _ = ops.scan(operands, _tensor(sizes), kind, keep, save)
    if len(state) == 1:
        return (h,), (h_n,)
    return (h, c) if keep else (h,), (h_n, c_n)


def _tensor(sizes: Sequence[int]) -> Tensor:
    if sizes and sizes[0] == sizes[-1]:  # many times faster than converting a long list
        return torch.full((len(sizes),), sizes[0], dtype=torch.int64)
    return torch.tensor(sizes, dtype=torch.int64)


def describe(
    form: Form, x: Tensor, weight: Tensor | None, bias: Tensor | None, state: State, steps: int, start: int
) -> tuple[Operands, Kind]:
    """The operands of the native scan."""
    operands, kind = form.operands(steps, start)
    h0, c0 = state if len(state) > 1 else (state[0], None)
    return Operands(x, weight, bias, h0, c0, *operands), kind
