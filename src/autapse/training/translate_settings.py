"""The settings of networks that translate people's own pairs of texts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from autapse.tasks.translate import Translating
from autapse.training.config import RunConfig
from autapse.training.defaults import Defaults
from autapse.training.model_config import TranslatorConfig


class TranslateDefaults(Defaults[TranslatorConfig]):
    """The default settings of translation. The encoder reads in both directions, unless its cells look ahead anyway."""

    def settled(self, config: RunConfig, keep: Collection[str] = ()) -> RunConfig:
        from autapse.layers.registry import looks_ahead  # imports torch

        config = super().settled(config, keep)
        model: Any = config.model
        encoder = model.cell if model.encoder == "same" else model.encoder
        if "bidirectional" in keep or not model.bidirectional or not looks_ahead(encoder):
            return config
        return replace(config, model=replace(model, bidirectional=False))


TRANSLATE = TranslateDefaults(
    TranslatorConfig,
    model={
        "hidden_size": (128,),
        "encoder_size": (64,),
        "bidirectional": True,
        "attention": "multiplicative",
        "condition": "state",
    },
    training={
        "steps": 2000,
        "seconds": 100.0,
        "batch_size": 32,
        "learning_rate": 3e-3,
        "schedule": "cosine",
        "warmup": 0.05,
        "select_by": "loss",
        "early_stop": 10,
        "threads": 1,
    },
    without_validation={"select_by": "last", "early_stop": None},
)
"""Settings that suit a few thousand short texts."""


def translate_config(
    task: Translating, *, model: dict[str, Any] | None = None, training: dict[str, Any] | None = None
) -> RunConfig:
    """The settings for a task with pairs of texts.

    Args:
        task: the task.
        model: settings of the network to use instead of the default ones, by name.
        training: settings of the training to use instead of the default ones, by name.

    Returns:
        A config for `train` or `fit`.

    >>> from autapse.tasks import TextPairs
    >>> task = TextPairs([("one", "eins"), ("two", "zwei"), ("three", "drei")])
    >>> config = translate_config(task, training={"seed": 1})
    >>> config.model.attention, config.training.select_by, config.training.seed
    ('multiplicative', 'loss', 1)
    """
    return TRANSLATE.config(task, model, training)
