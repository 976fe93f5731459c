"""Elimination along sequences: against SciPy's banded solver and dense matrices, by the kernel and in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from autapse.native.implicit import TridiagonalKernel
from autapse.sequences.red_black import RedBlackOrder
from autapse.unfold.banded import Banded, eliminated, native_sequences
from native.kernels import needs_kernels
from tolerance import close

LENGTHS = [7, 4, 4, 1, 0]
S = 3


def make(stencil: tuple[int, ...], dtype: torch.dtype = torch.float64) -> tuple[RedBlackOrder, dict[int, Tensor]]:
    layout = RedBlackOrder(torch.tensor(LENGTHS), stencil, torch.device("cpu"), False)
    shape = (len(stencil), layout.total, S)
    bands = torch.rand(shape, dtype=dtype) * (0.98 / len(stencil))  # an M-matrix, as gates give
    return layout, dict(zip(stencil, bands, strict=True))


def dense(layout: RedBlackOrder, bands: dict[int, Tensor], sequence: int, channel: int) -> Tensor:
    rows, n = layout.rows_of(sequence), LENGTHS[sequence]
    matrix = torch.eye(n, dtype=torch.float64)
    for offset, band in bands.items():
        for t in range(n):
            if 0 <= t + offset < n:
                matrix[t, t + offset] -= band[rows[t], channel].double()
    return matrix


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stencil", [(-1, 1), (-2, -1, 1, 2), (-1,), (1,), (-3, 1), (-1, 2)], ids=str)
def test_each_sequence_and_channel_is_its_own_system(stencil: tuple[int, ...], transposed: bool) -> None:
    layout, bands = make(stencil)
    right = torch.randn(layout.total, S, dtype=torch.float64)
    y = eliminated(layout, bands, transposed)(right)
    for b in range(len(LENGTHS)):
        rows = layout.rows_of(b)
        for c in range(S):
            matrix = dense(layout, bands, b, c)
            matrix = matrix.t() if transposed else matrix
            close(y[rows, c], torch.linalg.solve(matrix, right[rows, c]))


WAYS: dict[str, Callable[[RedBlackOrder, dict[int, Tensor]], Callable[[Tensor], Tensor]]] = {
    "plain": lambda layout, bands: Banded(layout, {o: b * layout.inside[o] for o, b in bands.items()}),
    "kernel": lambda layout, bands: TridiagonalKernel(bands[-1], bands[1], native_sequences(layout)),
}


@pytest.mark.parametrize("way", [pytest.param("plain"), pytest.param("kernel", marks=needs_kernels)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tridiagonal_against_scipy(way: str, dtype: torch.dtype) -> None:
    layout, bands = make((-1, 1), dtype)
    right = torch.randn(layout.total, S, dtype=dtype)
    solve = WAYS[way](layout, bands)
    for _ in range(2):  # eliminated once, used twice
        y = solve(right)
        for c in range(S):
            rows = layout.rows_of(0)
            diagonals = np.zeros((3, LENGTHS[0]))
            diagonals[0, 1:] = -bands[1][rows[:-1], c].double().numpy()
            diagonals[1] = 1
            diagonals[2, :-1] = -bands[-1][rows[1:], c].double().numpy()
            expected = scipy.linalg.solve_banded((1, 1), diagonals, right[rows, c].double().numpy())
            close(y[rows, c], torch.from_numpy(expected).to(dtype))
        right = torch.randn_like(right)


@pytest.mark.parametrize("way", [pytest.param("plain"), pytest.param("kernel", marks=needs_kernels)])
def test_rows_that_the_right_side_lacks_are_zero(way: str) -> None:
    layout, bands = make((-1, 1))
    right = torch.randn(layout.free, S, dtype=torch.float64)
    whole = torch.cat([right, torch.zeros(layout.total - layout.free, S, dtype=torch.float64)])
    close(WAYS[way](layout, bands)(right), WAYS[way](layout, bands)(whole))


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernel_has_the_same_bits_for_every_number_of_threads(dtype: torch.dtype) -> None:
    layout = RedBlackOrder(torch.tensor([40, 39, 20, 7, 7, 3]), (-1, 1), torch.device("cpu"), False)
    bands = torch.rand(2, layout.total, 133, dtype=dtype) * 0.49
    right = torch.randn(layout.total, 133, dtype=dtype)
    found = []
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        found.append(TridiagonalKernel(bands[0], bands[1], native_sequences(layout))(right))
    assert all(torch.equal(other, found[0]) for other in found[1:])
