"""RedBlackOrder: the rows of a batch ordered by colour, and the neighbours of each row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from autapse.sequences.batch import SequenceBatch
from autapse.sequences.lengths import running


class RedBlackOrder:
    """The rows of B sequences, longest first: colour by colour, and within a colour position by position.

    If all offsets are odd, there are two colours, the even and the odd positions, and no row has a row of
    its own colour on its stencil. Other stencils have one colour. The states past the ends are the edges: one row for
    all sequences if these are zero, else one row before and one row after each sequence.
    """

    def __init__(self, lengths: Tensor, offsets: Sequence[int], device: torch.device, edges: bool) -> None:
        """`lengths` [B], descending, on the CPU; `edges`: whether each sequence has its own edges."""
        self.lengths, self.offsets, self.device, self.edges = lengths, tuple(offsets), device, edges
        self.count = len(lengths)
        self.extent = int(lengths[0]) if len(lengths) else 0
        self.sizes: list[int] = running(lengths, self.extent).sum(1).tolist()
        self.two_colours = all(offset % 2 for offset in offsets)
        steps = list(range(self.extent))
        order = [*steps[0::2], *steps[1::2]] if self.two_colours else steps
        first, at = [0] * self.extent, 0
        for t in order:
            first[t], at = at, at + self.sizes[t]
        self.first, self.total = first, at
        self.free = sum(self.sizes[0::2]) if self.two_colours else at  # rows of the first colour
        parts = [slice(0, self.free), slice(self.free, at)]
        self.colours = parts if self.two_colours else parts[:1]  # the rows of each colour
        self.others = self.colours[::-1]  # the rows on the stencil of each colour's rows
        self._firsts = torch.tensor(first, dtype=torch.long)
        counts = torch.tensor([self.sizes[t] for t in order], dtype=torch.long)
        self._t = torch.repeat_interleave(torch.tensor(order, dtype=torch.long), counts)
        self._sequence = torch.arange(at) - self._firsts[self._t]

    @staticmethod
    def of(batch: SequenceBatch, offsets: Sequence[int], edges: bool) -> RedBlackOrder:
        """The red-black order of a batch's rows."""
        return RedBlackOrder(batch.lengths, offsets, batch.rows.device, edges)

    # Rows -------------------------------------------------------------------------------------------------------

    @cached_property
    def owner(self) -> Tensor:  # [N]
        """The sequence of each row."""
        return self._sequence.to(self.device)

    @cached_property
    def packed(self) -> Tensor:  # [N]
        """The index of each row in a PackedSequence."""
        sizes = torch.tensor(self.sizes, dtype=torch.long)
        return ((sizes.cumsum(0) - sizes)[self._t] + self._sequence).to(self.device)

    @cached_property
    def positions(self) -> list[slice]:
        """The rows of each position."""
        return [slice(first, first + size) for first, size in zip(self.first, self.sizes, strict=True)]

    @cached_property
    def ends(self) -> Tensor:  # [B]
        """The last row of each sequence; row 0 for sequences of length 0."""
        if not self.total:
            return torch.zeros(self.count, dtype=torch.long, device=self.device)
        rows = self._firsts[(self.lengths - 1).clamp_min(0)] + torch.arange(self.count)
        return torch.where(self.lengths > 0, rows, 0).to(self.device)

    def final(self, z: Tensor, edges: Tensor) -> Tensor:  # [N, S], [1, S] or [2B, S] -> [B, S]
        """The final state of each sequence: at its last position, or the state before it if it has length 0."""
        before = edges[: self.count] if self.edges else edges.expand(self.count, -1)
        if not self.total:
            return before
        empty = (self.lengths == 0).to(z.device)
        last = z.index_select(0, self.ends)
        return torch.where(empty[:, None], before, last) if bool(empty.any()) else last

    def rows_of(self, sequence: int) -> Tensor:  # [n]
        """The rows of one sequence, position by position."""
        return (self._firsts[: int(self.lengths[sequence])] + sequence).to(self.device)

    def select(self, problems: Tensor) -> tuple[RedBlackOrder, Tensor]:  # [b], ascending
        """The layout of some of the sequences, and the index of its rows in this one."""
        problems = problems.cpu()
        part = RedBlackOrder(self.lengths[problems], self.offsets, self.device, self.edges)
        return part, (self._firsts[part._t] + problems[part._sequence]).to(self.device)

    # Neighbours -------------------------------------------------------------------------------------------------

    @cached_property
    def neighbours(self) -> list[dict[int, Tensor]]:
        """For each colour, and each offset and its negative: the index of the neighbours in [other rows, edges]."""
        both_ways = {*self.offsets, *(-offset for offset in self.offsets)}
        return [{offset: self._index(colour, offset) for offset in both_ways} for colour in range(len(self.colours))]

    def _index(self, colour: int, offset: int) -> Tensor:
        rows, other = self.colours[colour], self.others[colour]
        sequence, t = self._sequence[rows], self._t[rows] + offset
        near = self._firsts[t.clamp(0, max(self.extent - 1, 0))] + sequence - other.start
        edge = torch.where(t < 0, sequence, self.count + sequence) if self.edges else torch.zeros_like(sequence)
        inside = (t >= 0) & (t < self.lengths[sequence])
        return torch.where(inside, near, other.stop - other.start + edge).to(self.device)

    @cached_property
    def inside(self) -> dict[int, Tensor]:  # offset -> [N, 1]
        """Whether the neighbour at an offset is a position, not an edge."""
        shifted = {offset: self._t + offset for offset in self.offsets}
        lengths = self.lengths[self._sequence]
        return {offset: ((t >= 0) & (t < lengths))[:, None].to(self.device) for offset, t in shifted.items()}
