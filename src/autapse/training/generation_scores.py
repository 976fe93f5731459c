"""Scores of generated sequences beside their likelihood: how well they continue, and how long they are."""

from __future__ import annotations

import numpy as np
import torch

from autapse.data.ragged import Ragged
from autapse.models import Generator, Padded
from autapse.tasks import Data, Generation
from autapse.tasks.generation import length_frequencies
from autapse.training.feeds import Tensors

SAMPLES = 20_000  # sequences whose lengths are counted: the distance of as many true ones is about 0.01
TOGETHER = 2_000


def generation_scores(model: Generator, task: Generation, data: Data, nats: float) -> dict[str, float]:
    """The scores of a generator that its task asks for.

    Args:
        model: the model.
        task: the task.
        data: the test data.
        nats: the negative log-likelihood per step.

    Returns:
        `nats_per_sequence`; for values with `task.steps_known()`, `free_running_error`: the mean squared error of the
        means with which the model continues after these steps, in units of the variance; and if the true lengths are
        known, `length_distance`: half the sum of the differences between true and generated shares of each length.
    """
    assert isinstance(data.targets, Ragged), "targets of this kind are ragged"
    scores = {"nats_per_sequence": nats * float(data.targets.lengths.mean())}
    if task.steps_known():
        batch = Tensors.of(data, model.device).take(list(range(len(data))))
        x = None if model.inputs is None else batch.inputs
        errors = model.free_running_errors(batch.padded_targets, task.steps_known(), x)
        scores["free_running_error"] = float(np.mean(errors))
    true = task.length_chances()
    if true is not None and model.inputs is None and model.decoder.ending != "given":
        scores["length_distance"] = 0.5 * float(np.abs(generated_lengths(model, len(true)) - true).sum())
    return scores


def generated_lengths(model: Generator, longest: int) -> np.ndarray:  # [longest]
    """The share of each length 1 … longest among sequences that the model generates. Longer ones have no share."""
    nothing = Padded(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    drawn = [
        model.sample(count=TOGETHER, start=nothing, longest=longest + 1, seed=seed).lengths
        for seed in range(SAMPLES // TOGETHER)
    ]
    lengths = torch.cat(drawn).numpy()
    return length_frequencies(np.where(lengths <= longest, lengths, 0), longest)
