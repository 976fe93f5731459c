"""The spectral radius of a matrix: the largest absolute value of its eigenvalues."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from autapse import checks

DENSE = 200  # size up to which all eigenvalues are computed
SPACE = 80  # vectors of the Krylov space
KEPT = 20  # eigenvalues, the largest ones, with whose vectors it starts again; a pair of conjugates counts once
RESTARTS = 60
TOLERANCE = (
    1e-11  # of the residual, relative to the eigenvalue: a fixed start then gives the same radius up to rounding
)


class _Rows(NamedTuple):
    """A square matrix by rows, each filled with zeros to the length of the longest."""

    values: Tensor  # [n, longest]
    columns: Tensor  # [n, longest]

    @classmethod
    def of(cls, values: Tensor, row: Tensor, column: Tensor, n: int) -> _Rows:
        """From the entries, sorted by row."""
        counts = torch.bincount(row, minlength=n)
        place = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
        shape = (n, int(counts.max()))
        return cls(
            values.new_zeros(shape).index_put((row, place), values),
            column.new_zeros(shape).index_put((row, place), column),
        )

    def __matmul__(self, x: Tensor) -> Tensor:  # [n] -> [n]
        return (self.values * x[self.columns]).sum(1)


@torch.no_grad()
def spectral_radius(matrix: Tensor, pattern: Tensor | None = None, size: int | None = None) -> float:
    """The spectral radius of a square matrix, computed in float64.

    A matrix without cycles (no path along its non-zero entries returns to where it began) is nilpotent. Its radius is
    exactly 0, where a solver for eigenvalues would return a number that means nothing.

    Args:
        matrix: [n, n]; or the entries of a sparse matrix, [m].
        pattern: for a sparse matrix, the row and the column of each entry, [2, m], without duplicates.
        size: for a sparse matrix, n.

    Returns:
        The largest absolute value of the eigenvalues.

    >>> round(autapse.solve.spectral_radius(torch.tensor([[0.0, -2.0], [2.0, 0.0]])), 9)
    2.0
    >>> autapse.solve.spectral_radius(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    0.0
    >>> round(autapse.solve.spectral_radius(torch.tensor([3.0]), torch.tensor([[5], [5]]), size=1000), 9)
    3.0
    """
    values, row, column, n = _entries(matrix.detach().to("cpu", torch.float64), pattern, size)
    if not bool(torch.isfinite(values).all()):
        checks.fail("matrix", "have finite values", "values that are NaN or infinite")
    if not _has_cycle(row, column, n):
        return 0.0
    largest = None if n <= DENSE else _largest(_Rows.of(values, row, column, n))
    if largest is not None:
        return largest
    return float(torch.linalg.eigvals(values.new_zeros(n, n).index_put((row, column), values)).abs().max())


def _entries(matrix: Tensor, pattern: Tensor | None, size: int | None) -> tuple[Tensor, Tensor, Tensor, int]:
    """The non-zero entries by row: values, rows and columns; and n."""
    if pattern is None:
        if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
            checks.fail("matrix", "be square and have at least one row", tuple(matrix.shape), kind=checks.ShapeError)
        row, column = matrix.nonzero().unbind(1)
        return matrix[row, column], row, column, len(matrix)
    n = checks.integer("size", size, minimum=1)
    pattern = pattern.detach().to("cpu", torch.int64)
    if matrix.dim() != 1 or pattern.shape != (2, len(matrix)):
        rule = f"have shape (2, m) for {tuple(matrix.shape)} entries"
        checks.fail("pattern", rule, tuple(pattern.shape), kind=checks.ShapeError)
    if not bool(((pattern >= 0) & (pattern < n)).all()):
        checks.fail("pattern", f"have rows and columns from 0 to {n - 1}", (int(pattern.min()), int(pattern.max())))
    order = torch.argsort(pattern[0], stable=True)
    order = order[matrix[order] != 0]
    return matrix[order], pattern[0, order], pattern[1, order], n


def _has_cycle(row: Tensor, column: Tensor, n: int) -> bool:
    """Whether some path along the entries returns to where it began."""
    order = torch.argsort(column, stable=True)
    readers, first = row[order], torch.searchsorted(column[order], torch.arange(n + 1))
    unread = torch.bincount(row, minlength=n)  # inputs of each unit that are not removed yet
    removed, free = 0, (unread == 0).nonzero().flatten()
    while len(free):  # units without inputs are on no cycle: remove them, and so on
        removed += len(free)
        parts = [readers[first[unit] : first[unit + 1]] for unit in free.tolist()]
        touched = torch.cat(parts)
        unread.index_add_(0, touched, torch.full_like(touched, -1))
        touched = touched.unique()
        free = touched[unread[touched] == 0]
    return removed < n


def _largest(matrix: _Rows) -> float | None:
    """The largest absolute value of the eigenvalues by the Krylov–Schur method; None if it does not converge."""
    n = len(matrix.values)
    basis = torch.zeros(SPACE + 1, n, dtype=torch.float64)  # orthonormal rows
    inside = torch.zeros(SPACE + 1, SPACE, dtype=torch.float64)  # matrix·basisᵀ = basisᵀ·inside
    start = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.5
    basis[0], kept = start / start.norm(), 0
    for _ in range(RESTARTS):
        for k in range(kept, SPACE):
            w = matrix @ basis[k]
            size = w.norm()
            for _ in range(2):  # once leaves rounding errors
                overlap = basis[: k + 1] @ w
                inside[: k + 1, k] += overlap
                w -= overlap @ basis[: k + 1]
            inside[k + 1, k] = w.norm()
            if inside[k + 1, k] <= 1e-14 * size:  # the space is invariant, so its eigenvalues are exact
                return float(torch.linalg.eigvals(inside[: k + 1, : k + 1]).abs().max())
            basis[k + 1] = w / inside[k + 1, k]
        values, vectors = torch.linalg.eig(inside[:SPACE])
        modulus, order = values.abs().sort(descending=True, stable=True)
        residual = (inside[SPACE].to(vectors.dtype) @ vectors[:, order[0]]).abs()
        if residual <= TOLERANCE * modulus[0]:
            return float(modulus[0])
        basis, inside, kept = _restarted(basis, inside, vectors[:, order], values[order])
    return None


def _restarted(basis: Tensor, inside: Tensor, vectors: Tensor, values: Tensor) -> tuple[Tensor, Tensor, int]:
    """The space of the eigenvectors with the largest eigenvalues, and the last vector."""
    # Of a pair of conjugate eigenvectors, the real and the imaginary part span the same space.
    upper = vectors[:, values.imag >= 0][:, :KEPT]
    parts = torch.cat([upper.real, upper.imag[:, values[values.imag >= 0][:KEPT].imag > 0]], dim=1)
    turn = torch.linalg.qr(parts).Q  # [SPACE, kept]
    kept = turn.shape[1]
    new_basis, new_inside = torch.zeros_like(basis), torch.zeros_like(inside)
    new_basis[:kept], new_basis[kept] = turn.T @ basis[:-1], basis[-1]
    new_inside[:kept, :kept], new_inside[kept, :kept] = turn.T @ inside[:-1] @ turn, inside[-1] @ turn
    return new_basis, new_inside, kept
