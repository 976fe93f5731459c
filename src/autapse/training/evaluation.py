"""The score of a model on a split."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from autapse.models import Model
from autapse.training.feeds import Tensors, in_order
from autapse.training.objectives import Objective
from autapse.training.scores import Tally


class Scores(NamedTuple):
    """The scores of a model on a split: the task's metric, and the mean of the training loss."""

    metric: float
    loss: float


def evaluate(model: Model, data: Tensors, objective: Objective, batch_size: int = 256) -> float:
    """Score a model.

    Args:
        model: the model. It is scored in evaluation mode and then left as it was.
        data: the split.
        objective: the objective of the task, `objective(task)`.
        batch_size: sequences that are evaluated at a time.

    Returns:
        The task's metric over all of `data`; smaller is better.

    >>> from autapse.tasks import Adding
    >>> from autapse.training import ModelConfig, make_model, objective
    >>> task = Adding(length=10, test_size=16)
    >>> model = make_model(task, ModelConfig(hidden_size=(4,)))
    >>> score = evaluate(model, Tensors.of(task.split("test", seed=0), "cpu"), objective(task))
    >>> score > 0
    True
    """
    return measure(model, data, objective, batch_size).metric


@torch.no_grad()
def measure(
    model: Model, data: Tensors, objective: Objective, batch_size: int = 256, tally: Tally | None = None
) -> Scores:
    """Metric and loss over all of `data`, in evaluation mode; `tally` counts the predictions."""
    was_training = model.training
    model.eval()
    score, loss, count, scored = 0.0, 0.0, 0, 0
    state: Any = None
    for batch in in_order(data, batch_size):
        known = {"targets": batch.padded_targets} if model.feeds_back else {}
        output, state = model.carry(batch.inputs, batch.lengths, None if batch.fresh else state, **known)
        score += float(objective.score(output, batch.targets))
        loss += float(objective.loss(output, batch.targets))
        count += objective.count(batch)
        scored += (objective.score_count or objective.count)(batch)
        if tally is not None:
            tally.add(output, batch.targets)
    model.train(was_training)
    return Scores(objective.metric(score / scored), loss / count)
