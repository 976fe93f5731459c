"""Previous: the element before as an input of the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.models.heads import MISSING, SPREAD

Fed = Tensor  # [..., size]


class Previous(nn.Module):
    """The base of feeds: what the layer reads of the element before. Before the first element it reads `start`."""

    size: int
    """Features."""
    start: nn.Parameter
    """[size] what is read at the first step."""

    def forward(self, y: Tensor) -> Fed:
        """Elements, with marks where they are missing."""
        raise NotImplementedError

    def from_start(self, y: Tensor) -> Fed:  # T elements -> [B, T + 1, size]
        """The start, and then elements."""
        return torch.cat([self.start.expand(len(y), 1, -1), self(y)], dim=1)

    def soft(self, expected: Tensor) -> Fed:
        """What `Head.expected` gives, with gradients."""
        raise NotImplementedError


class PreviousSymbol(Previous):
    """A vector per symbol, and one for a symbol that is missing.

    Args:
        count: number of symbols.
        size: size of the vectors.
        where: device and dtype.

    >>> PreviousSymbol(5, 8)(torch.tensor([[0, 4, -100]])).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, count: int, size: int, **where: Any) -> None:
        super().__init__()
        self.count, self.size = count, checks.integer("embedding_size", size, minimum=1)
        self.table = nn.Embedding(count + 1, size, **where)
        self.start = nn.Parameter(torch.empty(size, **where))
        for vectors in (self.table.weight, self.start):
            nn.init.uniform_(vectors, -SPREAD, SPREAD)

    def forward(self, y: Tensor) -> Fed:  # [..., ] -> [..., size]
        return self.table(torch.where(y == MISSING, self.count, y))

    def from_start(self, y: Tensor) -> Fed:  # [B, T] -> [B, T + 1, size]
        # One table with the start as its last row: no copy of the vectors of all steps.
        table = torch.cat([self.table.weight, self.start[None]])
        numbers = F.pad(torch.where(y == MISSING, self.count, y), (1, 0), value=self.count + 1)
        return F.embedding(numbers, table)

    def soft(self, expected: Tensor) -> Fed:  # [..., K] -> [..., size]
        return expected[..., : self.count] @ self.table.weight[: self.count]


class PreviousValues(Previous):
    """Standardised values; with `gaps` also a mark for each column that is missing.

    Args:
        mean: of each column.
        scale: deviation of each column.
        gaps: whether values may be missing.
        where: device and dtype.

    >>> PreviousValues([0.0, 2.0], [1.0, 2.0], gaps=True)(torch.tensor([[1.0, torch.nan]])).tolist()
    [[1.0, 0.0, 0.0, 1.0]]
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Sequence[float], scale: Sequence[float], gaps: bool = False, **where: Any) -> None:
        super().__init__()
        self.gaps = checks.boolean("gaps", gaps)
        self.size = len(mean) * (1 + gaps)
        self.start = nn.Parameter(torch.zeros(self.size, **where))
        self.register_buffer("mean", torch.tensor(mean, **where))
        self.register_buffer("scale", torch.tensor(scale, **where))

    def forward(self, y: Tensor) -> Fed:  # [..., D] -> [..., size]
        missing = y.isnan()
        values = torch.where(missing, 0, (y - self.mean) / self.scale)
        return torch.cat([values, missing.to(values)], dim=-1) if self.gaps else values

    def soft(self, expected: Tensor) -> Fed:
        return self(expected)
