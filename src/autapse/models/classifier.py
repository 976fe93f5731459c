"""One class for each sequence."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from autapse.models.base import SequenceModel
from autapse.models.model import Batches
from autapse.models.solved_head import is_solvable, solve_classes


class Classifier(SequenceModel):
    """Logits of the class of each sequence, [B, output_size], from the output at its last step.

    >>> model = Classifier("rin", input_size=1, output_size=10, hidden_size=32)
    >>> model(torch.zeros(4, 64, 1)).shape
    torch.Size([4, 10])
    """

    joins: ClassVar[bool] = True

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, classes]
        return self.at_end(x, lengths, keys)

    def start_from(self, train: Batches, validation: Batches) -> float | None:
        """If only the head can learn, as on a reservoir, solve it by logistic regression."""
        if not is_solvable(self):
            return super().start_from(train, validation)
        return solve_classes(self, train, validation)
