"""Batches from a split, and the score of a model on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from autapse.tasks import Data
from autapse.tasks.objectives import Objective


@dataclass(frozen=True)
class Tensors:
    """A split on a device."""

    inputs: Tensor  # [N, T, D]
    targets: Tensor
    lengths: Tensor | None  # [N], on the CPU

    @classmethod
    def of(cls, data: Data, device: torch.device | str) -> Tensors:
        lengths = None if data.lengths is None else torch.from_numpy(data.lengths)
        return cls(torch.from_numpy(data.inputs).to(device), torch.from_numpy(data.targets).to(device), lengths)

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, index: list[int]) -> Tensors:
        """Some of the sequences, padded no further than the longest of them."""
        chosen = torch.tensor(index)
        inputs, targets = self.inputs[chosen], self.targets[chosen]
        if self.lengths is None:
            return Tensors(inputs, targets, None)
        lengths = self.lengths[chosen]
        longest = max(int(lengths.max()), 1)
        tags = targets.dim() == 2 and targets.shape[1] == inputs.shape[1] and not targets.is_floating_point()
        return Tensors(inputs[:, :longest], targets[:, :longest] if tags else targets, lengths)


def epoch_order(size: int, seed: int, epoch: int) -> list[int]:
    """The order of the training sequences in an epoch, from (seed, epoch) alone."""
    order: list[int] = np.random.default_rng([seed, epoch, 7]).permutation(size).tolist()
    return order


@torch.no_grad()
def evaluate(model: nn.Module, data: Tensors, objective: Objective, batch_size: int = 256) -> float:
    """The task's metric over all of `data`, in evaluation mode."""
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    for first in range(0, len(data), batch_size):
        batch = data.take(list(range(first, min(first + batch_size, len(data)))))
        total += float(objective.score(model(batch.inputs, batch.lengths), batch.targets))
        count += objective.count(batch.targets)
    model.train(was_training)
    return total / count
