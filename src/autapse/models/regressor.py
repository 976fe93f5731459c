"""Values for each sequence, or at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.models.base import Network, SequenceModel
from autapse.models.model import Batches
from autapse.models.solved_head import is_solvable, solve_values


class Regressor(SequenceModel):
    """Values for each sequence, [B, output_size], from the output at its last step.

    `target_mean` and `target_scale` have the mean and the deviation of each target. The output is mean + scale·head, so
    that the head's values are near 1 in any unit.

    >>> model = Regressor("gru", 3, 2, hidden_size=8, target_mean=[20.0, 1000.0], target_scale=[5.0, 10.0])
    >>> model(torch.zeros(4, 7, 3)).shape
    torch.Size([4, 2])
    """

    has_classes: ClassVar[bool] = False
    joins: ClassVar[bool] = True

    target_mean: Tensor
    target_scale: Tensor

    def __init__(
        self,
        cell: Network,
        input_size: int,
        output_size: int,
        *args: Any,
        target_mean: Sequence[float] = (),
        target_scale: Sequence[float] = (),
        **settings: Any,
    ) -> None:
        super().__init__(cell, input_size, output_size, *args, **settings)
        if any(len(given) not in (0, output_size) for given in (target_mean, target_scale)):
            checks.fail("target_mean, target_scale", f"have {output_size} entries", (target_mean, target_scale))
        self.scaled = bool(target_mean or target_scale)
        if self.scaled:
            like = self.head.weight
            self.register_buffer("target_mean", like.new_tensor(target_mean or [0.0] * output_size))
            self.register_buffer("target_scale", like.new_tensor(target_scale or [1.0] * output_size))

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, K]
        return self.in_unit(self.at_end(x, lengths, keys))

    def in_unit(self, output: Tensor) -> Tensor:  # [..., K]
        return torch.addcmul(self.target_mean, output, self.target_scale) if self.scaled else output

    def start_from(self, train: Batches, validation: Batches) -> float | None:
        """If only the head can learn, as on a reservoir, solve it by ridge regression."""
        if not is_solvable(self):
            return super().start_from(train, validation)

        def of_head(targets: Tensor) -> Tensor:
            return (targets - self.target_mean) / self.target_scale if self.scaled else targets

        return solve_values(self, train, of_head)


class StepRegressor(Regressor):
    """Values at every step, [B, T, output_size]. Those after the end of a sequence have no meaning.

    `target_mean` and `target_scale` have the mean and the deviation of each target, as in `Regressor`.

    >>> model = StepRegressor("gru", 3, 2, hidden_size=8)
    >>> model(torch.zeros(4, 7, 3), lengths=[7, 5, 2, 1]).shape
    torch.Size([4, 7, 2])
    """

    every_step: ClassVar[bool] = True

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, T, K]
        return self.in_unit(self.at_each(x, lengths, keys))
