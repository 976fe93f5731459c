"""Line: the step and the sequence of each row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from autapse.solve.system import Groups


class Line(Groups):
    """Groups whose rows are the steps of sequences. Every sequence has all steps from 0 to its own end."""

    owner: Tensor

    def __init__(self, step: Tensor, owner: Tensor, count: int, length: int) -> None:
        super().__init__(count, owner)
        self.step = step  # [N]
        self.length = length  # steps of the longest sequence

    @staticmethod
    def packed(sizes: Sequence[int], device: torch.device) -> Line:
        """The line of rows in packed order, with `sizes[t]` sequences at step t, which never grow."""
        counts = torch.tensor(sizes)
        step = torch.repeat_interleave(torch.arange(len(sizes)), counts)
        owner = torch.arange(len(step)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        return Line(step.to(device), owner.to(device), sizes[0], len(sizes))

    @cached_property
    def lengths(self) -> Tensor:  # [B]
        return torch.bincount(self.owner, minlength=self.count)

    def reversed(self) -> Line:
        """The same rows, each sequence counted from its own end."""
        return Line(self.lengths[self.owner] - 1 - self.step, self.owner, self.count, self.length)

    def select(self, sequences: Tensor) -> tuple[Line, Tensor]:  # [B] bool
        """The line of some sequences, and the index of its rows in this one."""
        rows = sequences[self.owner].nonzero()[:, 0]
        number = sequences.long().cumsum(0) - 1
        step = self.step[rows]
        return Line(step, number[self.owner[rows]], int(sequences.sum()), int(step.max()) + 1), rows

    def previous(self, rows: Tensor, first: Tensor) -> Tensor:  # [N, ...], [B, ...] -> [N, ...]
        """The row one step before each row; `first` for step 0."""
        return torch.cat([first, rows]).index_select(0, self._before)

    def last(self, total: int) -> Tensor:  # [total]
        """The index of each sequence's final state in `total` initial states followed by the rows."""
        ends = torch.arange(total, device=self.step.device)
        ended = self.step == self.lengths[self.owner] - 1
        ends[self.owner[ended]] = ended.nonzero()[:, 0] + total
        return ends

    def pad(self, rows: Tensor) -> Tensor:  # [N, ...] -> [T, B, ...]
        """The rows by step and sequence, with zeros after the end of each sequence."""
        shape = (self.length, self.count, *rows.shape[1:])
        return rows.new_zeros(self.length * self.count, *rows.shape[1:]).index_copy_(0, self._place, rows).view(shape)

    def unpad(self, table: Tensor) -> Tensor:  # [T, B, ...] -> [N, ...]
        """The opposite of `pad`."""
        return table.flatten(0, 1).index_select(0, self._place)

    def largest(self, rows: Tensor) -> Tensor:  # [N] -> [B]
        """The largest value of each sequence. No value may be negative."""
        return rows.new_zeros(self.count).scatter_reduce(0, self.owner, rows, "amax")

    def largest_so_far(self, rows: Tensor) -> Tensor:  # [N] -> [N]
        """The largest value of the sequence up to each row. No value may be negative."""
        return self.unpad(self.pad(rows).cummax(0).values)

    def any(self, chosen: Tensor) -> Tensor:  # [N] bool -> [B] bool
        """Whether each sequence has a chosen row."""
        return torch.bincount(self.owner[chosen], minlength=self.count) > 0

    def first(self, chosen: Tensor) -> Tensor:  # [N] bool -> [B]
        """The first chosen step of each sequence; `length` if there is none."""
        steps = torch.where(chosen, self.step, self.length)
        return steps.new_full((self.count,), self.length).scatter_reduce(0, self.owner, steps, "amin")

    @cached_property
    def _place(self) -> Tensor:
        return self.step * self.count + self.owner

    @cached_property
    def _before(self) -> Tensor:
        row_at = self.step.new_zeros(self.length * self.count)
        row_at[self._place] = torch.arange(len(self.step), device=self.step.device) + self.count
        behind = row_at[(self._place - self.count).clamp_min(0)]
        return torch.where(self.step == 0, self.owner, behind)
