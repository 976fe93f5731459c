"""The scan of a form by the native kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from torch import Tensor

from autapse.cells.base import Cell, Note
from autapse.forms import Affine, Form, Scanned, State
from autapse.native.dispatch import in_forward_mode
from autapse.native.operands import KERNELS
from autapse.unfold.reference import scan_reference


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
    if cell.runs_in_parts and clip == math.inf and not flow and not in_forward_mode():
        return _in_parts(cell, x, state, sizes, start, keep, reverse)
    weights, form, affine = prepare(cell) if prepared is None else prepared
    read = keep or cell.output_reads_all
    if (
        form is None
        or cell.runs_in_parts
        or (flow and not form.reads_by_one_product)
        or (not form.has_tangent and in_forward_mode())
    ):
        return scan_reference(cell, x, state, sizes, start, keep, weights, reverse, note, clip, flow)
    drive = cell.drive(x) if affine is None else x
    return form.scan(drive, affine, state, sizes, start, read, reverse, clip, flow)


class _Scans(NamedTuple):
    """The scans that a cell in parts can use."""

    keep: bool

    def form(self, form: Form, drive: Tensor, state: State, sizes: Sequence[int]) -> Scanned:
        return form.scan(drive, None, state, sizes, keep=self.keep)

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
