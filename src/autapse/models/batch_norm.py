"""Batch normalisation of rows: the steps of sequences without their padding, or one row per sequence."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm1d):
    """torch.nn.BatchNorm1d for rows [N, size]. A batch of one row, which has no deviation, uses the running statistics.

    >>> norm = BatchNorm(2)
    >>> norm(torch.tensor([[1.0, 6.0], [3.0, 4.0]])).round().tolist()
    [[-1.0, 1.0], [1.0, -1.0]]
    >>> norm(torch.tensor([[1.0, 5.0]])).shape
    torch.Size([1, 2])
    """

    def forward(self, rows: Tensor) -> Tensor:  # [N, size]
        if len(rows) > 1 or not self.training:
            return super().forward(rows)
        return F.batch_norm(rows, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
