"""The forward derivative of a scan: a second scan, which is linear, a few steps at a time.

The coefficients of the second scan are computed for all rows of a few steps at once, so that they stay in cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from autapse.native.operands import KERNELS, Kind, Operands, Stretch

ELEMENTS = 1 << 16  # of a state, over all rows of a stretch


def push(
    forward: Callable[..., Sequence[Tensor]],  # the scan: (operands, sizes, kind, keep_cells, save) -> results
    operands: Operands,
    tangents: Operands,
    saved: Sequence[Tensor],  # h, c and the reserve
    sizes: Tensor,
    kind: Kind,
) -> tuple[Tensor, ...]:
    """The tangents of h, h_n, c and c_n; those of the cells are empty if there are none."""
    form, cells = KERNELS[kind.form], operands.c0 is not None
    values, starts = (saved[:2], (operands.h0, operands.c0)) if cells else (saved[:1], (operands.h0,))
    given = (tangents.h0, tangents.c0)[: len(starts)]
    state = [torch.zeros_like(s) if t is None else t.clone() for s, t in zip(starts, given, strict=True)]  # type: ignore[arg-type]
    moved = [torch.empty_like(value) for value in values]
    for stretch, counts in _stretches(values, starts, saved[2], sizes.tolist(), kind.reverse):
        begin = [part[: counts[0]] for part in state]
        linear, linear_kind = form.tangent_operands(operands, tangents, stretch, begin, kind)
        h, h_n, c, c_n, _ = forward(linear, torch.tensor(counts), linear_kind, keep_cells=cells, save=False)
        for n, (rows, ends) in enumerate(((h, h_n), (c, c_n))[: len(state)]):
            moved[n][slice(*stretch.rows)] = rows
            state[n][: counts[0]] = ends
    none = operands.x.new_empty(0), operands.x.new_empty(0)
    return moved[0], state[0], *((moved[1], state[1]) if cells else none)


def _stretches(
    values: Sequence[Tensor], starts: Sequence[Any], reserve: Tensor, counts: list[int], reverse: bool
) -> Iterator[tuple[Stretch, list[int]]]:
    """The steps of a scan, a few at a time, in the order in which it runs."""
    offsets = [0, *itertools.accumulate(counts)]
    rows = max(1, ELEMENTS // values[0].shape[1])
    ends = [0]
    for t in range(1, len(counts) + 1):
        if t == len(counts) or offsets[t + 1] - offsets[ends[-1]] > rows:
            ends.append(t)
    spans = list(itertools.pairwise(ends))
    for first, last in reversed(spans) if reverse else spans:
        here = slice(offsets[first], offsets[last])
        positions = torch.arange(first, last)
        if reverse:  # the last row is read first
            positions = len(counts) - 1 - positions
        steps = torch.repeat_interleave(positions, torch.tensor(counts[first:last]))
        before = [_before(v, s, counts, offsets, first, last, reverse) for v, s in zip(values, starts, strict=True)]
        stretch = Stretch((here.start, here.stop), before, [value[here] for value in values], reserve[here], steps)
        yield stretch, counts[first:last]


def _before(
    rows: Tensor, start: Tensor, counts: list[int], offsets: list[int], first: int, last: int, reverse: bool
) -> Tensor:
    """The states from which the steps from `first` to `last` start."""
    ahead, edge = (1, len(counts)) if reverse else (-1, -1)
    if edge not in (first + ahead, last - 1 + ahead) and counts[first] == counts[last - 1] == counts[first + ahead]:
        return rows[offsets[first + ahead] : offsets[last + ahead]]
    parts = [
        start[: counts[t]] if t + ahead == edge else rows[offsets[t + ahead] : offsets[t + ahead] + counts[t]]
        for t in range(first, last)
    ]
    return torch.cat(parts)
