"""The score of a model on a split."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from autapse.models import SequenceModel
from autapse.training.feeds import Tensors, in_order
from autapse.training.objectives import Objective


class Scores(NamedTuple):
    """What a split says of a model: the task's metric, and the mean of the training loss."""

    metric: float
    loss: float


def evaluate(model: SequenceModel, data: Tensors, objective: Objective, batch_size: int = 256) -> float:
    """The task's metric over all of `data`, in evaluation mode."""
    return measure(model, data, objective, batch_size).metric


@torch.no_grad()
def measure(model: SequenceModel, data: Tensors, objective: Objective, batch_size: int = 256) -> Scores:
    """Metric and loss over all of `data`, in evaluation mode."""
    was_training = model.training
    model.eval()
    score, loss, count = 0.0, 0.0, 0
    state: Any = None
    for batch in in_order(data, batch_size):
        output, state = model.carry(batch.inputs, batch.lengths, None if batch.fresh else state)
        score += float(objective.score(output, batch.targets))
        loss += float(objective.loss(output, batch.targets))
        count += objective.count(batch.targets)
    model.train(was_training)
    return Scores(objective.metric(score / count), loss / count)
