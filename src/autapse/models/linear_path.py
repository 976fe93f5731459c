"""A straight line from a window to the horizon: ridge regression whose settings are chosen by cross-validation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from autapse.readouts.sums import Sums

RIDGES = (1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0)  # relative to the mean of the diagonal
BLOCKS = 5  # of the training windows, one of which is held out at a time
LEAST = 20  # windows of a block
MOST_GROWTH = 3.0
MARGIN = 0.005  # a preferred normalisation is used if its error is larger by at most this share


class LineChoice(NamedTuple):
    """The straight line that was chosen."""

    kind: int
    """The number of the normalisation."""
    ridge: float
    weight: list[Tensor]
    """One [p, h] per channel."""
    growth: list[float]
    """How much larger the errors on new windows are than those on the training windows, one per channel."""


def choose(
    kinds: Sequence[int],
    channels: int,
    rows: Callable[[int, int, bool], Iterable[tuple[Tensor, Tensor]]],
) -> LineChoice:
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
    weight = [part.train.solved(ridge) for part in parts]
    return LineChoice(kind, ridge, weight, [part.growth(ridge) for part in parts])


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
        later = 0.0 if self.validation is None else self.validation.error(self.train.solved(ridge))
        return later + self._left_out(ridge)

    def _left_out(self, ridge: float) -> float:
        """The squared error on each block, of weights from all other blocks."""
        if len(self.blocks) == 1:
            return self.train.error(self.train.solved(ridge))
        return sum(block.error((self.train - block).solved(ridge)) for block in self.blocks)

    def growth(self, ridge: float) -> float:
        """The root of the mean squared error on blocks that were left out, relative to that of the fit."""
        fitted = self.train.error(self.train.solved(ridge))
        return min(math.sqrt(max(self._left_out(ridge) / fitted, 1.0)), MOST_GROWTH) if fitted > 0 else 1.0
