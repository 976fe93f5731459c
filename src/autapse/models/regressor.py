"""Numbers for a sequence."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from autapse.models.base import SequenceModel


class Regressor(SequenceModel):
    """`output_size` numbers for a sequence, from the state at its own end."""

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, K]
        return self.at_end(x, lengths, keys)

    def predict(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, K]
        """The numbers, in evaluation mode."""
        return self._predicted(x, lengths)
