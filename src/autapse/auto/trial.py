"""One candidate, trained on one fold."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from autapse import records
from autapse.data.ragged import Ragged, dense
from autapse.records import Record
from autapse.tasks import IGNORE, Data, Signature, Task
from autapse.tasks.base import Kind, Metric, Split
from autapse.tasks.scaling import InputScaling, refitted
from autapse.tasks.stored import Examples, standardisation
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.feeds import Tensors, in_order
from autapse.training.loop import Loop
from autapse.training.model_config import ModelConfig
from autapse.training.objectives import balanced_weights
from autapse.training.rescue import Diverged

LEAST = 0.5  # seconds of training, however late it is


@dataclass(frozen=True, kw_only=True)
class Known(Task):
    """A task whose data the caller has. It knows only the signature."""

    known: Signature

    name = "known"
    summary = "data that the caller has"
    baseline_text = ""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return self.known.kind

    @property
    def metric(self) -> Metric:  # type: ignore[override]
        return "mean squared error" if "regression" in self.known.kind else "error rate"

    def signature(self) -> Signature:
        return self.known

    def split(self, split: Split, seed: int) -> Data:
        raise NotImplementedError

    def baseline(self, data: Data) -> float:
        raise NotImplementedError

    def floor(self, data: Data) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Job(Record):
    """What to train, and on which fold."""

    model: ModelConfig
    training: TrainingConfig
    signature: Signature
    fold: int
    until: float
    """When to stop, by `time.time()`."""

    @classmethod
    def from_json(cls, content: Any, source: object = "") -> Job:
        """The job that `to_json` wrote."""
        return records.read(cls, content, source)


@dataclass(frozen=True, kw_only=True)
class Outcome(Record):
    """How a candidate did on the validation sequences of a fold."""

    losses: tuple[float, ...]
    """Of each sequence."""
    scores: tuple[float, ...]
    """Of each sequence, in the task's metric."""
    steps: int
    seconds: float


def run(job: Job, split: dict[str, Data]) -> Outcome | None:
    """Train and validate a candidate.

    Args:
        job: the candidate.
        split: the training and validation data of its fold.

    Returns:
        Its losses; None if the time was over before the start, or if the training diverged.
    """
    left = job.until - time.time()
    if left < LEAST:
        return None
    data = {name: Tensors.of(part, "cpu") for name, part in split.items()}
    task = Known(known=_fitted(job.signature, split["train"]))
    training = replace(job.training, seconds=left, eval_every=10**9)
    empty = Tensors.of(_first(split["validation"], 0), "cpu")  # scored once, at the end
    loop = Loop(RunConfig(task=task, model=job.model, training=training), None, {**data, "validation": empty})
    try:
        loop.run()
    except Diverged:
        return None
    losses, scores = (_weighted(part, split["validation"]) for part in each(loop, data["validation"]))
    return Outcome(losses=losses, scores=scores, steps=loop.progress.step, seconds=round(loop.progress.seconds, 3))


def _fitted(signature: Signature, train: Data) -> Signature:
    """The signature with the scales of the training part of a fold, so that nothing comes from its validation part."""
    scaling = InputScaling(**{name: getattr(signature, name) for name in InputScaling().fields()})
    inputs = train.inputs if isinstance(train.inputs, Ragged) else Ragged.of(list(train.inputs))
    signature = replace(signature, **refitted(scaling, inputs).fields())
    if "regression" not in signature.kind:
        return signature
    mean, scale = standardisation(dense(train.targets))
    return replace(signature, target_mean=mean, target_scale=scale)


def _weighted(values: tuple[float, ...], data: Data) -> tuple[float, ...]:
    """The values of all sequences, times their weights."""
    return values if data.weights is None else tuple((np.array(values) * data.weights).tolist())


@torch.no_grad()
def each(loop: Loop, data: Tensors) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The loss and the score of each sequence. The order is the same for all models."""
    losses, scores = list[float](), list[float]()
    model, balanced = loop.model.eval(), loop.settings.class_weights == "balanced"
    weight = balanced_weights(loop.train_data.targets, loop.signature.output_size).float() if balanced else None
    for batch in in_order(data, 256):
        output, target = model(batch.inputs, batch.lengths), batch.targets
        if "regression" in loop.signature.kind:
            scale = torch.tensor(loop.signature.target_scale or [1.0], dtype=output.dtype)
            error = (output - target).square().flatten(1)
            relative = ((output - target) / scale).square().flatten(1)
            losses += relative.nanmean(1).tolist()
            scores += error.nanmean(1).tolist()
            continue
        many = output.reshape(-1, output.shape[-1])
        loss = F.cross_entropy(many, target.flatten(), weight, ignore_index=IGNORE, reduction="none")
        loss = loss.reshape(len(target), -1)
        known = (target != IGNORE).reshape(len(target), -1)
        wrong = (output.argmax(-1) != target).reshape(len(target), -1) & known
        count = known.sum(1).clamp(min=1)
        losses += (loss.sum(1) / count).tolist()
        scores += (wrong.sum(1) / count).tolist()
    return tuple(losses), tuple(scores)


def seconds_per_step(job: Job, data: Data, steps: int = 6) -> float:
    """How long one training step takes here, with the threads that torch has now."""
    tensors = Tensors.of(data, "cpu")
    empty = Tensors.of(_first(data, 0), "cpu")
    config = RunConfig(task=Known(known=job.signature), model=job.model, training=replace(job.training, seconds=None))
    loop = Loop(config, None, {"train": tensors, "validation": empty})
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        loop._train_once()
        loop.progress.step += 1
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]  # the first ones are slow


def _first(data: Data, count: int) -> Data:
    """The first sequences of a split."""
    return Examples(data.inputs, data.targets).take(np.arange(count)).data()
