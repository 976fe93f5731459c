"""A class for every step."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from autapse.models.base import SequenceModel
from autapse.models.model import Batches
from autapse.models.solved_head import is_solvable, solve_classes


class Tagger(SequenceModel):
    """Logits of a class at every step, [B, T, output_size]. Those after the end of a sequence have no meaning.

    >>> model = Tagger("gru", input_size=3, output_size=5, hidden_size=8)
    >>> model(torch.zeros(4, 7, 3), lengths=[7, 5, 2, 1]).shape
    torch.Size([4, 7, 5])
    """

    every_step: ClassVar[bool] = True
    joins: ClassVar[bool] = True

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, T, classes]
        return self.at_each(x, lengths, keys)

    def start_from(self, train: Batches, validation: Batches) -> float | None:
        """If only the head can learn, as on a reservoir, solve it by logistic regression."""
        if not is_solvable(self):
            return super().start_from(train, validation)
        return solve_classes(self, train, validation)
