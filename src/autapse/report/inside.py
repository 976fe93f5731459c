"""The diagnosis of a run: the probes that fit its network, on its own data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autapse import checks
from autapse.diagnostics.diagnosis import diagnose
from autapse.models import Model
from autapse.models.base import as_reader
from autapse.tasks import Split
from autapse.training.config import RunConfig
from autapse.training.feeds import Batch, Tensors, in_order
from autapse.training.objectives import objective

FILE = "diagnosis.json"
SEQUENCES = 32


def diagnose_run(
    model: Model,
    config: RunConfig,
    source: object,
    *,
    split: Split = "test",
    sequences: int = SEQUENCES,
    layer: int = 0,
    budget: float = 60.0,
    notify: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Look inside a trained model.

    Args:
        model: the model.
        config: the settings of its run.
        source: the run, for messages.
        split: the split whose sequences are used.
        sequences: how many.
        layer: which layer of a stack.
        budget: seconds. Probes stop when the time is over.
        notify: is called with the name of each probe before it starts.

    Returns:
        The content of diagnosis.json.
    """
    data = config.task.split(split, config.training.seed)
    if not len(data):
        raise checks.InputError(f"{source} has no {split} data. Choose another split with --split.")
    goal, batch = objective(config.task), some_sequences(Tensors.of(data, "cpu"), sequences)
    count = (goal.score_count or goal.count)(batch)
    diagnosis = diagnose(
        as_reader(model),
        batch.inputs,
        batch.lengths,
        loss=lambda output: goal.loss(output, batch.targets) / goal.count(batch),
        score=lambda output: goal.metric(float(goal.score(output, batch.targets)) / count),
        layer=layer,
        budget=budget,
        notify=notify,
    )
    about = {"run": str(source), "split": split, "layer": layer, "sequences": len(batch.inputs)}
    return {**about, "steps": int(batch.inputs.shape[1]), **diagnosis.to_json()}


def cut_short(diagnosis: dict[str, Any]) -> list[str]:
    """The probes in a diagnosis.json that had too little time."""
    cut, late = diagnosis.get("cut"), diagnosis.get("late")  # files of older versions do not have both
    return [*(cut if isinstance(cut, dict) else ()), *(late if isinstance(late, list) else ())]


def some_sequences(data: Tensors, count: int) -> Batch:
    """Some sequences from all over the data, or the first pieces of a text."""
    if data.span is not None:
        return next(iter(in_order(data, count)))
    chosen = {round(n * (len(data) - 1) / max(1, count - 1)) for n in range(min(count, len(data)))}
    return data.take(sorted(chosen) if len(data) > count else list(range(len(data))), (13,))
