"""A straight line from a window to the horizon: ridge regression whose settings are chosen by cross-validation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

RIDGES = (1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0)  # relative to the mean of the diagonal
BLOCKS = 5  # of the training windows, one of which is held out at a time
LEAST = 20  # windows of a block
MARGIN = 0.005  # a preferred normalisation is used if its error is larger by at most this share


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
            own = cls(A.T @ A, A.T @ B, B.square().sum())
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


class Choice(NamedTuple):
    """The straight line that was chosen."""

    kind: int
    """The number of the normalisation."""
    ridge: float
    weight: list[Tensor]
    """One [p, h] per channel."""


def choose(
    kinds: Sequence[int],
    channels: int,
    rows: Callable[[int, int, bool], Iterable[tuple[Tensor, Tensor]]],
) -> Choice:
    """Choose a normalisation and a ridge by cross-validation.

    Args:
        kinds: the normalisations to try, the preferred one first.
        channels: the number of channels to forecast.
        rows: the features and the targets in batches, for a normalisation, a channel, and whether those for
            validation are asked for.

    Returns:
        The choice with the lowest squared error on windows that were not used: blocks of the training windows, each
        without that block, and the validation windows, without all that follows the training windows.
    """
    trials: list[tuple[float, int, float, list[_Parts]]] = []
    for kind in kinds:
        parts = [_Parts.of(rows(kind, channel, False), rows(kind, channel, True)) for channel in range(channels)]
        trials += [(sum(part.error(ridge) for part in parts), kind, ridge, parts) for ridge in RIDGES]
    limit = (1 + MARGIN) * min((error for error, *_ in trials if math.isfinite(error)), default=math.inf)
    best = {kind: min((t for t in trials if t[1] == kind), key=lambda trial: trial[0]) for kind in kinds}
    _, kind, ridge, parts = next((best[kind] for kind in kinds if best[kind][0] <= limit), trials[0])
    return Choice(kind, ridge, [part.train.solved(ridge) for part in parts])


class _Parts(NamedTuple):
    """The sums of the training windows, of blocks of them in the order of time, and of the validation windows."""

    train: Sums
    blocks: list[Sums]
    validation: Sums | None

    @classmethod
    def of(cls, train: Iterable[tuple[Tensor, Tensor]], validation: Iterable[tuple[Tensor, Tensor]]) -> _Parts:
        listed = list(train)
        A, B = torch.cat([one for one, _ in listed]), torch.cat([two for _, two in listed])
        count = max(1, min(BLOCKS, len(A) // LEAST))
        sums = [Sums.of([pair]) for pair in zip(A.tensor_split(count), B.tensor_split(count), strict=True)]
        blocks = [one for one in sums if one is not None]
        return cls(functools.reduce(Sums.__add__, blocks), blocks, Sums.of(validation))

    def error(self, ridge: float) -> float:
        """The squared error on each block without that block, and on the validation windows."""
        total = 0.0 if self.validation is None else self.validation.error(self.train.solved(ridge))
        if len(self.blocks) > 1:
            total += sum(block.error((self.train - block).solved(ridge)) for block in self.blocks)
        elif self.validation is None:
            total = self.train.error(self.train.solved(ridge))
        return total
