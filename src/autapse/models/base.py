"""SequenceModel: a recurrent layer by name, and a linear head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.layers.names import make_layer


class SequenceModel(nn.Module):
    """What classifier, regressor and tagger share; not for direct use.

    `cell` is a layer's name with options (`"gru"`, `"ernn:inner_steps=2"`); `hidden_size` one size, or one per layer.
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        output_size: int,
        hidden_size: int | Sequence[int] = 64,
        num_layers: int | None = None,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.layer = make_layer(
            cell,
            input_size,
            hidden_size if isinstance(hidden_size, int) else list(hidden_size),
            num_layers=num_layers,
            batch_first=True,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )
        output_size = checks.integer("output_size", output_size, minimum=1)
        self.head = nn.Linear(self.layer.output_size, output_size, device=device, dtype=dtype)

    def at_end(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, T, D] -> [B, output_size]
        """The head on the last layer at each sequence's own end."""
        _, h_n = self.layer(x, lengths=lengths)
        return self.head(self.layer.final_output(h_n))

    def at_each(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, T, D] -> [B, T, output_size]
        """The head on the last layer at every position."""
        return self.head(self.layer(x, lengths=lengths)[0])

    def predict(self, x: Tensor, lengths: Any = None) -> Tensor:
        """What the model says of each sequence, in evaluation mode."""
        raise NotImplementedError

    @torch.no_grad()
    def _predicted(self, x: Tensor, lengths: Any) -> Tensor:
        was_training = self.training
        try:
            return self.eval()(x, lengths)
        finally:
            self.train(was_training)
