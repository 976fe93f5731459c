"""Bridge: a vector as the initial state of a layer."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.layers.recurrent import Recurrent, columns_of

Map = Literal["linear", "mlp"]


class Bridge(nn.Module):
    """h0 = tanh(W·c + b) for a vector c, in the format of a layer; or with a hidden layer, an MLP.

    Args:
        size: size of the vector.
        layer: the layer that starts from it.
        kind: `linear` or `mlp`, with a hidden layer of as many units as the layer has.
        where: device and dtype.

    >>> layer = autapse.LSTM(3, 8, num_layers=2)
    >>> h, c = Bridge(5, layer)(torch.zeros(4, 5))
    >>> h.shape, c.shape
    (torch.Size([2, 4, 8]), torch.Size([2, 4, 8]))
    """

    def __init__(self, size: int, layer: Recurrent, kind: Map = "linear", **where: Any) -> None:
        super().__init__()
        checks.one_of("context", kind, get_args(Map))
        self._states = layer.initial_sizes
        self._per_layer = isinstance(layer.hidden_size, list)
        total = sum(sum(sizes) for sizes in self._states)
        hidden = layer.output_size
        first: list[nn.Module] = [nn.Linear(size, hidden, **where), nn.Tanh()] if kind == "mlp" else []
        self.map = nn.Sequential(*first, nn.Linear(hidden if first else size, total, **where), nn.Tanh())

    def forward(self, vector: Tensor) -> Any:  # [B, C] -> h0
        parts = self.map(vector).split([size for sizes in self._states for size in sizes], dim=-1)
        rows = iter(parts)
        per_cell = [[next(rows) for _ in sizes] for sizes in self._states]
        columns = [[part.unsqueeze(0) for part in column] for column in columns_of(per_cell)]
        joined: list[Any] = [tuple(column) if self._per_layer else torch.cat(column) for column in columns]
        return joined[0] if len(joined) == 1 else tuple(joined)
