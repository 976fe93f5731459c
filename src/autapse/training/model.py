"""The model that a run's settings describe."""

from __future__ import annotations

from typing import Any

from autapse import checks
from autapse.models import MODELS, MemoryNetwork, SequenceModel
from autapse.tasks import Signature, Task
from autapse.tasks.base import ForecastShape
from autapse.training.config import ModelConfig, RunConfig

MEMORY = ("hops", "statements", "tying", "linear_start")  # the settings of a memory network


def build_model(config: RunConfig) -> SequenceModel:
    """A new model for a run, on its device."""
    return make_model(config.task, config.model, config.training.device)


def make_model(
    task: Task, model: ModelConfig, device: str = "cpu", signature: Signature | None = None
) -> SequenceModel:
    """A new model of the kind and the sizes that a task needs.

    Args:
        task: what the model is to learn.
        model: the settings of the network.
        device: where the model is to be.
        signature: the kind and the sizes of the task's data; by default `task.signature()`, which reads the data.

    Returns:
        A `Classifier`, `Regressor`, `StepRegressor`, `Tagger`, `LanguageModel`, `QuestionAnswering`, `MemoryNetwork` or
        `Forecaster`.

    >>> from autapse.tasks import Adding
    >>> from autapse.training import ModelConfig
    >>> model = make_model(Adding(), ModelConfig(cell="gru", hidden_size=(8,)))
    >>> type(model).__name__, model(torch.zeros(4, 50, 2)).shape
    ('Regressor', torch.Size([4, 1]))
    """
    sizes, known = model.hidden_size, signature or task.signature()
    embedding = model.embedding_size or task.embedding_size
    if model.embedding_size and not known.vocabularies:
        checks.fail("embedding_size", f"be omitted: {task.name} has features, not words", model.embedding_size)
    targets: dict[str, Any] = {"target_mean": known.target_mean, "target_scale": known.target_scale}
    if model.hops and known.kind != "question answering":
        checks.fail("hops", f"be 0 for {task.name}: a memory network answers questions", model.hops)
    kind = MemoryNetwork if model.hops else MODELS[known.kind]
    made = kind(
        model.cell,
        known.input_size,
        known.output_size,
        hidden_size=sizes[0] if len(sizes) == 1 else sizes,
        num_layers=model.num_layers,
        dropout=model.dropout,
        bidirectional=model.bidirectional,
        vocabularies=[len(words) for words in known.vocabularies],
        embedding_size=embedding,
        mean=known.mean,
        scale=known.scale,
        input_dropout=model.input_dropout,
        output_dropout=model.output_dropout,
        input_noise=model.input_noise,
        initialisation=model.initialisation,
        front=model.front,
        readout=model.readout,
        readout_front=model.readout_front,
        output_norm=model.output_norm,
        streaming=model.streaming,
        length=known.length,
        center=known.center,
        spread=known.spread,
        level_mean=known.level_mean,
        level_scale=known.level_scale,
        difference_scale=known.difference_scale,
        missing=known.missing,
        device=device,
        **(targets if "regression" in known.kind else {}),
        **(_forecast(known, known.forecast) if known.forecast else {}),
        **({name: getattr(model, name) for name in MEMORY} if model.hops else {}),
    )
    made.classes, made.channels = known.classes, known.channels
    return made


def _forecast(known: Signature, shape: ForecastShape) -> dict[str, Any]:
    """The arguments of a Forecaster."""
    names = ("horizon", "window", "recursive", "intervals", "levels")
    order = [known.channels.index(name) for name in shape.columns]
    return {"known": len(shape.known), "order": order, **{name: getattr(shape, name) for name in names}}
