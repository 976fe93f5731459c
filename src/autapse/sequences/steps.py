"""Rows of some steps of a batch, for networks whose units do not all change at every step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor


def rows_of_steps(
    rows: Tensor,  # [N, S], in the order of a batch
    sizes: Sequence[int],  # number of sequences at each step
    before: Tensor | None,  # [B, S], the rows before the first step; None if no step -1 is wanted
    wanted: Sequence[int],  # steps, -1 for the rows before the first
    counts: Sequence[int],  # for each wanted step, of how many sequences; never more than the step has
) -> Tensor:  # [sum of counts, S]
    """The rows of the wanted steps, one after the other."""
    first = counts[0] if counts else 0
    if all(count == first for count in (*sizes, *counts)):
        # Whole steps: their gradients are added in long rows, which is many times faster than sequence by sequence.
        table = rows.reshape(len(sizes), first * rows.shape[1])
        table = table if before is None else torch.cat([before[:first].reshape(1, first * rows.shape[1]), table])
        index = torch.tensor(wanted, dtype=torch.long, device=rows.device) + (before is not None)
        return table.index_select(0, index).view(len(wanted) * first, rows.shape[1])
    ahead = 0 if before is None else len(before)
    table = rows if before is None else torch.cat([before, rows])
    offsets = list(itertools.accumulate(sizes, initial=ahead))
    pairs = zip(wanted, counts, strict=True)
    places = [torch.arange(count) + (0 if step < 0 else offsets[step]) for step, count in pairs]
    return table[torch.cat(places).to(rows.device)] if places else rows[:0]
