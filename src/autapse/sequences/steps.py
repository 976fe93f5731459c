"""Rows of some steps of a batch, for networks whose units do not all change at every step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse.native.dispatch import is_plain
from autapse.native.memory import fresh
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


class Track(NamedTuple):
    """Rows of some steps of a batch, which hold until the next of these steps."""

    rows: Tensor  # [sum of counts, S]
    before: Tensor  # [B, S], before the first of the steps
    steps: range
    counts: Sequence[int]  # number of sequences at each of them; never grows

    def last(self, steps: range) -> list[int]:
        """The index of the row that holds after each of these steps; -1 for `before`."""
        return [max(-1, (step - self.steps.start) // self.steps.step) for step in steps]

    def repeats(self, steps: range, counts: Sequence[int]) -> Repeats | None:
        """How often each row holds after these steps, if sequences have one length and rows are read equally often."""
        same = all(each[0] == each[-1] == len(self.before) > 0 for each in (self.counts, counts) if each)
        if not same or not self.counts or self.steps.step % steps.step or steps.start - self.steps.start >= steps.step:
            return None
        earlier = len(range(steps.start, min(steps.stop, self.steps.start), steps.step))
        each = self.steps.step // steps.step
        return Repeats(earlier, each, *divmod(len(steps) - earlier, each))


class Repeats(NamedTuple):
    """`before` so often, then each row so often, for `full` rows, then the next row `rest` times."""

    earlier: int
    each: int
    full: int
    rest: int

    def pieces(
        self, steps: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:  # [T, ...] -> [e, ...], [full, each, ...], [rest, ...]
        first, middle, last = steps.split([self.earlier, self.full * self.each, self.rest])
        return first, middle.unflatten(0, (self.full, self.each)), last

    def summed(self, grad: Tensor, count: int) -> tuple[Tensor, Tensor]:  # [T, B, S] -> [count · B, S], [B, S]
        """The gradients of the rows and of `before`."""
        first, middle, last = self.pieces(grad)
        # For two, an addition is faster than a sum.
        parts = [middle.sum(1) if self.each > 2 else middle[:, 0] + middle[:, 1] if self.each == 2 else middle[:, 0]]
        if self.rest:
            parts.append(last.sum(0, keepdim=True))
        unread = count - self.full - (self.rest > 0)
        if unread:
            parts.append(grad.new_zeros(unread, *grad.shape[1:]))
        rows = torch.cat(parts) if len(parts) > 1 else parts[0]
        return rows.reshape(-1, grad.shape[-1]), first.sum(0)


def add_steps(to: Tensor, track: Track, steps: range, counts: Sequence[int]) -> Tensor:
    """`to`, [sum of counts, S], plus the rows that hold after these steps. It may change `to`."""
    repeats = track.repeats(steps, counts)
    if repeats is None or not is_plain(to, track.rows, track.before):
        return to + rows_of_steps(track.rows, track.counts, track.before, track.last(steps), counts)
    return _AddSteps.apply(to, track.rows, track.before, repeats)


def side_by_side(tracks: Sequence[Track], sizes: Sequence[int]) -> Tensor:  # [N, sum of S]
    """The rows that hold after each step of a batch, for all tracks."""
    steps = range(len(sizes))
    repeats = [track.repeats(steps, sizes) for track in tracks]
    rows, before = [track.rows for track in tracks], [track.before for track in tracks]
    if None in repeats or not is_plain(*rows, *before):
        parts = [rows_of_steps(track.rows, track.counts, track.before, track.last(steps), sizes) for track in tracks]
        return torch.cat(parts, dim=1)
    return _SideBySide.apply(repeats, *rows, *before)


class _AddSteps(torch.autograd.Function):
    """In place: copies of all steps, which autograd would make, take longer than the products that are added here."""

    @staticmethod
    def forward(ctx: Any, to: Tensor, rows: Tensor, before: Tensor, repeats: Repeats) -> Tensor:
        ctx.repeats, ctx.shape = repeats, (len(rows) // len(before), len(before))
        ctx.mark_dirty(to)
        first, middle, last = repeats.pieces(to.view(-1, *before.shape))
        table = rows.view(-1, *before.shape)
        first += before
        middle += table[: repeats.full].unsqueeze(1)
        last += table[repeats.full : repeats.full + 1]
        return to

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        (grad,) = gradients
        rows, count = ctx.shape
        return grad, *ctx.repeats.summed(grad.view(-1, count, grad.shape[1]), rows), None


class _SideBySide(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, repeats: Sequence[Repeats], *tensors: Tensor) -> Tensor:
        rows, before = tensors[: len(repeats)], tensors[len(repeats) :]
        count, widths = len(before[0]), [one.shape[1] for one in before]
        steps = sum((repeats[0].earlier, repeats[0].full * repeats[0].each, repeats[0].rest))
        ctx.repeats, ctx.widths, ctx.counts = repeats, widths, [len(one) // count for one in rows]
        ctx.shape = steps, count
        whole = fresh(rows[0], (steps, count, sum(widths)))
        for one, initial, repeat, own in zip(rows, before, repeats, whole.split(widths, dim=2), strict=True):
            first, middle, last = repeat.pieces(own)
            table = one.view(-1, *initial.shape)
            first.copy_(initial.expand_as(first))
            middle.copy_(table[: repeat.full].unsqueeze(1).expand_as(middle))
            last.copy_(table[repeat.full : repeat.full + 1].expand_as(last))
        return whole.flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        (grad,) = gradients
        own = grad.view(*ctx.shape, -1).split(ctx.widths, dim=2)
        pairs = [r.summed(g, n) for r, g, n in zip(ctx.repeats, own, ctx.counts, strict=True)]
        return None, *(rows for rows, _ in pairs), *(before for _, before in pairs)


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
