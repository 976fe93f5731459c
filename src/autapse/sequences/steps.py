"""Rows of some steps of a batch, for networks whose units do not all change at every step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from autapse.sequences.lengths import running


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
        width = first * rows.shape[1]
        whole = _whole_steps(rows.reshape(len(sizes), width), wanted)
        earlier = sum(step < 0 for step in wanted)  # they come first
        if before is not None and earlier:
            whole = torch.cat([before[:first].reshape(1, width).expand(earlier, width), whole])
        return whole.reshape(len(wanted) * first, rows.shape[1])
    ahead = 0 if before is None else len(before)
    table = rows if before is None else torch.cat([before, rows])
    offsets = list(itertools.accumulate(sizes, initial=ahead))
    pairs = zip(wanted, counts, strict=True)
    places = [torch.arange(count) + (0 if step < 0 else offsets[step]) for step, count in pairs]
    return table[torch.cat(places).to(rows.device)] if places else rows[:0]


def at_ends(rows: Tensor, sizes: Sequence[int], before: Tensor) -> Tensor:  # [N, S], [B, S] -> [B, S]
    """The rows of the last step of each sequence. Sequences without steps come last, and have the rows `before`."""
    if not sizes:
        return before
    if sizes[0] == sizes[-1]:
        ends = rows[len(rows) - sizes[-1] :]
    else:
        counts = torch.tensor(sizes)
        lengths = running(counts, sizes[0]).sum(1)
        places = (counts.cumsum(0) - counts)[lengths - 1] + torch.arange(len(lengths))
        ends = rows.index_select(0, places.to(rows.device))
    return ends if len(ends) == len(before) else torch.cat([ends, before[len(ends) :].to(ends.dtype)])


def add_steps(
    to: Tensor,  # [sum of counts, S]
    rows: Tensor,
    sizes: Sequence[int],
    before: Tensor,
    wanted: Sequence[int],
    counts: Sequence[int],
) -> Tensor:
    """`to` plus `rows_of_steps`. Steps that are wanted several times in a row are not copied."""
    earlier, later = sum(step < 0 for step in wanted), [step for step in wanted if step >= 0]
    repeats = later.count(0)
    regular = repeats > 0 and later == [n // repeats for n in range(len(later))]
    if not regular or any(count != counts[0] for count in (*sizes, *counts)):
        return to + rows_of_steps(rows, sizes, before, wanted, counts)
    width, full = counts[0] * rows.shape[1], len(later) // repeats
    first, middle, last = to.view(len(wanted), width).split([earlier, full * repeats, len(later) % repeats])
    table = rows.view(len(sizes), width)
    repeated = middle.view(full, repeats, width) + table[:full].unsqueeze(1)
    parts = [first + before[: counts[0]].reshape(1, width)] if earlier else []
    parts += [repeated.flatten(0, 1), *([last + table[full]] if len(last) else [])]
    return torch.cat(parts).view_as(to)


def _whole_steps(table: Tensor, wanted: Sequence[int]) -> Tensor:  # [T, W] -> [steps from 0 on, W]
    """The wanted rows, -1 left out. Slices and repetitions have fast gradients; others are added row by row."""
    steps = [step for step in wanted if step >= 0]
    if not steps:
        return table[:0]
    repeats, stride = steps.count(steps[0]), steps[1] - steps[0] if len(steps) > 1 else 1
    count = -(-len(steps) // repeats)
    if steps == [n // repeats for n in range(len(steps))]:
        used = table if count == len(table) else table[:count]
        if repeats == 1:
            return used
        repeated = used.unsqueeze(1).expand(count, repeats, -1).reshape(count * repeats, -1)
        return repeated if len(repeated) == len(steps) else repeated[: len(steps)]
    if stride > 0 and steps == list(range(steps[0], steps[-1] + 1, stride)):
        return table[steps[0] : steps[-1] + 1 : stride]
    return table.index_select(0, torch.tensor(steps, device=table.device))
