"""A label for every position."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from autapse.models.base import SequenceModel


class Tagger(SequenceModel):
    """Logits of a class at every position; past the end of a sequence they mean nothing."""

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, T, classes]
        return self.at_each(x, lengths, keys)

    def predict(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, T]
        """The most probable class at every position, in evaluation mode."""
        return self._predicted(x, lengths).argmax(-1)
