"""Implicit GRUs trained on the walk task, with their weights after several numbers of steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.implicit.settings import BATCH, ImplicitSettings
from torch import Tensor

from autapse.models import Tagger
from autapse.tasks import Walk
from autapse.training.evaluation import evaluate
from autapse.training.feeds import Tensors, epoch_order
from autapse.training.objectives import objective


@dataclass
class Trained:
    """A model of one width, and its weights after several numbers of training steps."""

    model: Tagger
    weights: dict[int, dict[str, Tensor]]
    facts: dict[str, Any]

    def at(self, step: int) -> Tagger:
        """The model with its weights after `step` training steps, in evaluation mode."""
        self.model.load_state_dict(self.weights[step])
        return self.model.eval()


def walk(settings: ImplicitSettings, **sizes: Any) -> Walk:
    """The task, with sizes of its splits."""
    return Walk(bias=settings.bias, **sizes)


def train_all(settings: ImplicitSettings) -> dict[int, Trained]:
    return {hidden: _train(settings, hidden) for hidden in settings.hidden}


def _train(settings: ImplicitSettings, hidden: int) -> Trained:
    steps = settings.phases[-1]
    task = walk(settings, train_size=max(BATCH * steps, BATCH), validation_size=500)
    data, goal = Tensors.of(task.split("train", settings.seed), "cpu"), objective(task)
    torch.manual_seed(settings.seed)
    model = Tagger("implicitgru", task.input_size, task.output_size, hidden_size=hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.rate)
    order = epoch_order(len(data), settings.seed, 0)
    weights, unsolved, start = {}, 0, time.time()
    for step in range(steps + 1):
        if step in settings.phases:
            weights[step] = {name: value.clone() for name, value in model.state_dict().items()}
        if step == steps:
            break
        batch = data.take(order[step * BATCH : (step + 1) * BATCH])
        loss = goal.loss(model(batch.inputs, batch.lengths), batch.targets) / goal.count(batch)
        solved = model.layer.converged()
        unsolved += 0 if solved is None else int((~solved).sum())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = time.time() - start
    error = evaluate(model, Tensors.of(task.split("validation", settings.seed), "cpu"), goal)
    facts = {"steps": steps, "seconds": round(seconds, 1), "unsolved": unsolved, "validation_error": round(error, 4)}
    print(f"k={hidden}: {facts}", flush=True)
    return Trained(model, weights, facts)
