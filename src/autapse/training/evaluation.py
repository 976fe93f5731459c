"""The score of a model on a split."""

from __future__ import annotations

from typing import Any

import torch

from autapse.models import SequenceModel
from autapse.tasks.objectives import Objective
from autapse.training.batches import Tensors, in_order


@torch.no_grad()
def evaluate(model: SequenceModel, data: Tensors, objective: Objective, batch_size: int = 256) -> float:
    """The task's metric over all of `data`, in evaluation mode."""
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    state: Any = None
    for batch in in_order(data, batch_size):
        output, state = model.carry(batch.inputs, batch.lengths, None if batch.fresh else state)
        total += float(objective.score(output, batch.targets))
        count += objective.count(batch.targets)
    model.train(was_training)
    return objective.metric(total / count)
