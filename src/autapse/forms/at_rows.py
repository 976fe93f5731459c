"""What a scan read and computed at some of its rows, for its forward derivative."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from autapse.native.operands import Operands, Stretch


class AtRows(NamedTuple):
    """The values of a scan at some rows, and the tangents of what its step reads apart from the state."""

    h: Tensor  # [N, H], the state before the step
    c: Tensor  # [N, H], the second one; empty if there is none
    new_h: Tensor  # [N, H]
    new_c: Tensor  # [N, H]
    reserve: Tensor  # [N, columns], what the kernel saved
    step: Tensor  # [N], the position of each row
    drive: Tensor  # [N, G], tangent of the drive
    product: Tensor  # [N, rows of the matrix], tangent of the matrix times h


def at_rows(operands: Operands, tangents: Operands, stretch: Stretch) -> AtRows:
    """Collect them, with a few products for all rows of a stretch at once."""
    h, rows = stretch.before[0], slice(*stretch.rows)
    product = h.new_zeros(()) if tangents.matrix is None else h @ tangents.matrix.t()
    product = product.expand(len(h), operands.matrix.shape[0])
    c, new_c = (stretch.before[1], stretch.after[1]) if len(stretch.before) > 1 else (h[:0], h[:0])
    drive = _drive_tangent(operands, tangents, rows)
    return AtRows(h, c, stretch.after[0], new_c, stretch.reserve, stretch.step, drive, product)


def _drive_tangent(operands: Operands, tangents: Operands, rows: slice) -> Tensor:  # [N, G]
    """d(W·x + b), or dx for a drive that is given."""
    x, weight = operands.x[rows], operands.weight
    if weight is None:
        return torch.zeros_like(x) if tangents.x is None else tangents.x[rows]
    moved = x.new_zeros(len(weight)) if tangents.bias is None else tangents.bias
    if tangents.weight is not None:
        moved = torch.addmm(moved, x, tangents.weight.t())
    if tangents.x is not None:
        moved = torch.addmm(moved, tangents.x[rows], weight.t())
    return moved.expand(len(x), len(weight))
