"""Sums: what least squares needs of many rows, added up in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Sums(NamedTuple):
    """What least squares needs of a matrix A [n, p] of features and a matrix B [n, h] of targets."""

    features: Tensor  # AᵀA, [p, p]
    mixed: Tensor  # AᵀB, [p, h]
    targets: Tensor  # the sum of the squares of B

    @classmethod
    def of(cls, rows: Iterable[tuple[Tensor, Tensor]]) -> Sums | None:
        """The sums over some pairs (A, B); None without a pair."""
        total: Sums | None = None
        for features, targets in rows:
            A, B = features.double(), targets.double()
            own = cls(gram(A), A.T @ B, B.square().sum())
            total = own if total is None else total + own
        return total

    def __add__(self, other: Any) -> Sums:
        return Sums(*(one + two for one, two in zip(self, other, strict=True)))

    def __sub__(self, other: Any) -> Sums:
        return Sums(*(one - two for one, two in zip(self, other, strict=True)))

    def solved(self, ridge: float) -> Tensor:  # [p, h]
        """The weights of ridge regression. The last feature, a constant, has no penalty."""
        diagonal = self.features.diagonal()
        penalty = torch.full_like(diagonal, ridge * float(diagonal[:-1].mean()) + 1e-30)
        penalty[-1] = 1e-12 * float(diagonal[-1]) + 1e-30
        matrix = self.features + torch.diag(penalty)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not int(failed):
            return torch.cholesky_solve(self.mixed, factor)
        return torch.linalg.lstsq(matrix, self.mixed, driver="gelsd").solution

    def error(self, weight: Tensor) -> float:
        """The sum of the squared errors of some weights."""
        return float(self.targets - 2 * (weight * self.mixed).sum() + (weight * (self.features @ weight)).sum())


def gram(A: Tensor) -> Tensor:  # [n, p] -> [p, p]
    """AᵀA: by blocks of columns, since half of the products are the same as the other half."""
    p = A.shape[1]
    if p <= BLOCK:
        return A.T @ A
    total = A.new_empty(p, p)
    for first in range(0, p, BLOCK):
        part = A[:, first : first + BLOCK].T @ A[:, first:]
        total[first : first + BLOCK, first:] = part
        total[first:, first : first + BLOCK] = part.T
    return total


BLOCK = 256  # columns
