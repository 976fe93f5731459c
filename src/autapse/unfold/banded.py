"""Elementwise couplings on a line: y_t − Σ_j b_j,t∘y_{t+j} = r_t, solved by elimination, unit by unit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from autapse.native.dispatch import kernels_serve
from autapse.native.implicit import Sequences, TridiagonalKernel
from autapse.sequences.red_black import RedBlackOrder


def eliminated(
    layout: RedBlackOrder,
    bands: dict[int, Tensor],  # offset -> [N, S]; values at the edges are ignored
    transposed: bool = False,
) -> Callable[[Tensor], Tensor]:
    """The inverse of I − bands, or of its transpose, for a right side [R, S] whose rows from R to N are zero."""
    rows = next(iter(bands.values()))
    if set(bands) == {-1, 1} and kernels_serve(rows):
        return TridiagonalKernel(bands[-1].contiguous(), bands[1].contiguous(), native_sequences(layout), transposed)
    bands = {offset: band * layout.inside[offset] for offset, band in bands.items()}
    if transposed:
        bands = {-offset: _moved(layout, band, -offset) for offset, band in bands.items()}
    return Banded(layout, bands)


def native_sequences(layout: RedBlackOrder) -> Sequences:
    """The layout for the native solvers, which support the stencil (−1, 1) only."""
    lengths = torch.tensor(
        layout.lengths.tolist(), dtype=torch.int64
    )  # torch.func may have wrapped those of the layout
    return Sequences(lengths, layout.edges, layout.offsets.index(-1))


def _moved(layout: RedBlackOrder, rows: Tensor, offset: int) -> Tensor:
    """The rows at an offset from each position; zero outside the sequence."""
    zeros = rows.new_zeros(2 * layout.count if layout.edges else 1, rows.shape[1])
    return torch.cat([
        torch.cat([rows[layout.others[colour]], zeros]).index_select(0, layout.neighbours[colour][offset])
        for colour in range(len(layout.colours))
    ])  # fmt: skip


class Banded:
    """The eliminated system; call it with a right side. It needs no pivoting: couplings of gates sum to less than 1."""

    def __init__(self, layout: RedBlackOrder, bands: dict[int, Tensor]) -> None:  # offset -> [N, S], zero at the edges
        self.layout = layout
        self.reach = max(abs(offset) for offset in bands)
        rows = next(iter(bands.values()))
        self.inverse = rows.new_ones(rows.shape)
        empty = torch.zeros_like(rows)
        distances = range(1, self.reach + 1)
        self.upper = {i: bands.get(i, empty).clone() for i in distances}  # to later rows, divided by the diagonal
        self.lower = {j: bands.get(-j, empty).clone() for j in distances}  # to earlier rows, not divided
        for t, here in enumerate(layout.positions):
            for j in range(min(self.reach, t), 0, -1):  # the farthest first: it adds to the nearer ones
                self._eliminate(t, j, here)
            self.inverse[here].reciprocal_()
            for i in range(1, self.reach + 1):
                self.upper[i][here] *= self.inverse[here]

    def _earlier(self, t: int, j: int) -> slice:
        first = self.layout.first[t - j]
        return slice(first, first + self.layout.sizes[t])

    def _eliminate(self, t: int, j: int, here: slice) -> None:
        """Insert y_{t−j} = … + Σ_i upper_i∘y_{t−j+i} into row t: this changes its nearer, diagonal or later entries."""
        factor, there = self.lower[j][here], self._earlier(t, j)
        for i in range(1, self.reach + 1):
            part = factor * self.upper[i][there]
            if i < j:
                self.lower[j - i][here] += part
            elif i == j:
                self.inverse[here] -= part
            else:
                self.upper[i - j][here] += part

    def __call__(self, right: Tensor) -> Tensor:  # [R, S], zero beyond -> [N, S]
        y = torch.cat([right, right.new_zeros(self.layout.total - len(right), right.shape[1])])
        for t, here in enumerate(self.layout.positions):
            for j in range(1, min(self.reach, t) + 1):
                y[here] += self.lower[j][here] * y[self._earlier(t, j)]
            y[here] *= self.inverse[here]
        for t in range(self.layout.extent - 2, -1, -1):
            for i in range(1, min(self.reach, self.layout.extent - 1 - t) + 1):
                size, first, later = self.layout.sizes[t + i], self.layout.first[t], self.layout.first[t + i]
                y[first : first + size] += self.upper[i][first : first + size] * y[later : later + size]
        return y
