"""The scan of a form by the native kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse.cells.base import Cell
from autapse.forms import Affine, Form, State
from autapse.native import ops
from autapse.native.dispatch import in_forward_mode
from autapse.native.operands import KERNELS
from autapse.unfold.reference import Note, Scanned, scan_reference


class Prepared(NamedTuple):
    """What a kernel needs of a cell, built once per call."""

    weights: Any  # the result of cell.prepare()
    form: Form | None  # its kernel can replace the cell's step; None: there is no kernel
    affine: Affine | None  # of the drive, if a kernel can compute it


def prepare(cell: Cell) -> Prepared:
    weights = cell.prepare()
    form = cell.fused(weights)
    if type(form) not in KERNELS:  # a subclass of a form may have another step
        return Prepared(weights, None, None)
    return Prepared(weights, form, cell.affine() if type(cell).drive is Cell.drive else None)


def tensors_of(cell: Cell) -> Iterable[Tensor]:
    """The parameters and buffers of a cell that have values, not indices."""
    if cell._modules:
        return (t for t in chain(cell.parameters(), cell.buffers()) if t.is_floating_point())
    # The same for a cell without modules inside, many times faster.
    held = (*cell._parameters.values(), *cell._buffers.values())
    return [t for t in held if t is not None and t.is_floating_point()]


def scan_fused(
    cell: Cell,
    x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # number of sequences at each step; never grows; sums to N
    start: int = 0,  # position of the first step
    keep: bool = True,  # all states of each step, not only the first, which is the output
    prepared: Prepared | None = None,  # the result of prepare(cell), if the caller has it
    reverse: bool = False,  # from the last step to the first; for sequences of one length
    note: Note | None = None,  # called with the report of each solved step
    clip: float = math.inf,  # bound of each entry of the gradient at a state, in the backward pass
    flow: float = 0.0,  # weight of each term of the regulariser for information flow, in the backward pass
) -> Scanned:
    """The states after each step and at each sequence's own end; by the reference if the cell has no kernel."""
    dual, plain = in_forward_mode(), clip == math.inf and not flow
    if cell.runs_in_parts and plain and not dual:
        return _in_parts(cell, x, state, sizes, start, keep, reverse)
    weights, form, affine = prepare(cell) if prepared is None else prepared
    if (
        form is None
        or cell.runs_in_parts
        or (dual and not form.has_tangent)
        or (flow and not form.reads_by_one_product)
    ):
        return scan_reference(cell, x, state, sizes, start, keep, weights, reverse, note, clip, flow)
    drive = cell.drive(x) if affine is None else x
    keep = keep or cell.output_reads_all
    return _scan_form(form, drive, affine, state, sizes, start, keep, reverse, clip, flow)


def _scan_form(
    form: Form,
    x: Tensor,  # [N, D], or the drive without `affine`
    affine: Affine | None,
    state: State,
    sizes: Sequence[int],
    start: int = 0,
    keep: bool = False,
    reverse: bool = False,
    clip: float = math.inf,
    flow: float = 0.0,
) -> Scanned:
    operands, kind = form.scan_operands(x, affine, state, len(sizes), start)
    if reverse or clip < math.inf or flow:
        kind = kind._replace(reverse=reverse, clip=clip, flow=flow)
    tracked = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands)
    save = tracked or in_forward_mode()
    h, h_n, c, c_n, _ = ops.scan(operands, _tensor(sizes), kind, keep, save)
    states, last = ((h,), (h_n,)) if operands.c0 is None else ((h, c) if keep else (h,), (h_n, c_n))
    return states, form.ends(h, last, state, sizes, reverse)


class _Scans(NamedTuple):
    """The scans that a cell in parts can use."""

    keep: bool

    def form(self, form: Form, drive: Tensor, state: State, sizes: Sequence[int]) -> Scanned:
        return _scan_form(form, drive, None, state, sizes, keep=self.keep)

    def cell(self, cell: Cell, x: Tensor, state: State, sizes: Sequence[int]) -> Scanned:
        return scan_fused(cell, x, state, sizes, keep=self.keep)


def _in_parts(
    cell: Cell, x: Tensor, state: State, sizes: Sequence[int], start: int, keep: bool, reverse: bool
) -> Scanned:
    parts = _Scans(keep)
    if not reverse:
        return cell.in_parts(x, state, sizes, start, parts)
    states, final = cell.in_parts(_flipped(x, sizes), state, sizes, start, parts)
    return tuple(_flipped(part, sizes) for part in states), final


def _flipped(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """The steps in the other order, for sequences of one length."""
    return rows.unflatten(0, (len(sizes), -1)).flip(0).flatten(0, 1)


def _tensor(sizes: Sequence[int]) -> Tensor:
    if sizes and sizes[0] == sizes[-1]:  # many times faster than converting a long list
        return torch.full((len(sizes),), sizes[0], dtype=torch.int64)
    return torch.tensor(sizes, dtype=torch.int64)
