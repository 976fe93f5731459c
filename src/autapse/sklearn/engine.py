"""Training and prediction in memory, without a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.models import SequenceModel
from autapse.models.base import as_reader
from autapse.tasks import Signature
from autapse.tasks.stored import Examples, held_out
from autapse.training.checkpoint import load_optimizer, optimizer_state
from autapse.training.config import RunConfig
from autapse.training.feeds import Tensors
from autapse.training.loop import Loop
from autapse.training.progress import RunProgress

# One pass over new data does not know when the training ends.
ENDLESS: dict[str, Any] = {
    "schedule": "constant",
    "period": None,
    "plateau_patience": 0,
    "plateau_by": "score",
    "warmup": 0.0,
    "average": 0.0,
    "select_by": "last",
    "early_stop": None,
    "epochs": None,
    "seconds": None,
}


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, and all that is needed to train it further or to save it."""

    model: SequenceModel
    config: RunConfig  # its task has no data
    signature: Signature
    progress: RunProgress
    history: list[dict[str, Any]]
    optimizer: dict[str, Tensor]


def examples_of(sequences: list[np.ndarray], targets: Any, weights: np.ndarray | None) -> Examples:
    """All sequences with a weight above 0; targets are an array, or a list with an array per sequence."""
    targets = Ragged.of(targets) if isinstance(targets, list) else targets
    if weights is not None and not weights.any():
        checks.fail("sample_weight and class_weight", "have at least one weight above zero", "only zeros")
    every = Examples(Ragged.of(sequences), targets, weights=weights)
    return every if weights is None else every.take(np.flatnonzero(weights > 0))


def train(config: RunConfig, signature: Signature, data: Examples, validation: float) -> Trained:
    """Train a new model; a share of the sequences is held out for validation."""
    training = config.training
    held = held_out(data, validation, training.seed)
    splits = {"train": data.take(np.flatnonzero(~held)), "validation": data.take(np.flatnonzero(held))}
    loop = Loop(config, None, _tensors(splits, training.device), signature)
    loop.run()
    return _trained(loop, config)


def train_task(config: RunConfig) -> Trained:
    """Train a new model on the data of the config's task."""
    loop = Loop(config)
    loop.run()
    return _trained(loop, config)


def train_more(before: Trained | None, config: RunConfig, signature: Signature, data: Examples) -> Trained:
    """Pass over the data once, with the model so far, or with a new one."""
    training, count = config.training, len(data)
    batches = -(-count // training.batch_size)
    done = 0 if before is None else before.progress.step
    change = {**ENDLESS, "steps": done + batches, "batch_size": count // batches}
    splits = {"train": data, "validation": data.take(np.arange(0))}
    loop = Loop(
        replace(config, training=replace(training, **change)),
        data=_tensors(splits, training.device),
        signature=signature,
    )
    if before is not None:
        loop.model.load_state_dict(before.model.state_dict())
        load_optimizer(loop.optimizer, loop.model, before.optimizer)
        loop.progress = replace(before.progress, finished=False)
        loop.history = list(before.history)
    loop.run()
    return _trained(loop, config)


def _tensors(splits: dict[str, Examples], device: str) -> dict[str, Tensors]:
    return {name: Tensors.of(part.data(), device) for name, part in splits.items()}


def _trained(loop: Loop, config: RunConfig) -> Trained:
    # What optimizers keep changes in place, so that a copy is needed.
    optimizer = {name: value.clone() for name, value in optimizer_state(loop.optimizer, loop.model).items()}
    without_data = RunConfig.from_json(config.to_json())
    return Trained(as_reader(loop.model).eval(), without_data, loop.signature, loop.progress, loop.history, optimizer)


@contextmanager
def own_randomness(device: str) -> Iterator[None]:
    """Training seeds torch's generator. Afterwards, the generator continues as if nothing had happened."""
    with torch.random.fork_rng([] if device == "cpu" else None):
        yield
