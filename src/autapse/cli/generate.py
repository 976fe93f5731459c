"""`autapse run FILE --generate`: which task it is, what is printed before and after the training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autapse.tasks import Generation, OwnSequences
from autapse.tasks.text_file import is_text
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import WriterConfig

if TYPE_CHECKING:
    from autapse.models import Generator

OPTION = "--generate"
VALIDATED: dict[str, Any] = {"schedule": "plateau", "plateau_patience": 2, "early_stop": 10}
WITHOUT_VALIDATION: dict[str, Any] = {"schedule": "cosine", "plateau_patience": 0, "early_stop": None, "steps": 1000}
SHOWN = 5  # sequences of symbols that are printed at the end


def as_generation(path: str, words: list[str]) -> list[str] | None:
    """The options of the task `generate` for a text file, or for a file with `--generate`; None for others."""
    if OPTION not in words and not is_text(path):
        return None
    return ["--path", path, *(word for word in words if word != OPTION)]


def default_model() -> WriterConfig:
    """The network for people's own sequences."""
    return WriterConfig(hidden_size=(128,), output_dropout=0.1)


def default_training() -> TrainingConfig:
    """The training for people's own sequences: at most two minutes, until validation does not improve any more."""
    return TrainingConfig(
        steps=5000,
        seconds=120.0,
        batch_size=32,
        learning_rate=3e-3,
        **VALIDATED,
    )


def settled(config: RunConfig) -> RunConfig:
    """The config of a run. Without validation data nothing can stop early."""
    task, training = config.task, config.training
    if not isinstance(task, OwnSequences) or task.validation:
        return config
    usual = all(getattr(training, name) == value for name, value in VALIDATED.items())
    return replace(config, training=replace(training, **WITHOUT_VALIDATION)) if usual else config


def print_look(console: Any, task: OwnSequences) -> None:
    """Print what is generated, and what it depends on."""
    train, test = task.both()
    written = task.signature().written
    assert written is not None, "a task of this kind says what is written"
    lengths = train.targets.lengths
    steps = f"{lengths.min()}" if lengths.min() == lengths.max() else f"{lengths.min()} to {lengths.max()}"
    noun = task.units if task.is_text else "steps"
    console.print(f"{len(train)} training and {len(test)} test sequences of {steps} {noun}")
    if task.is_text:
        console.print(f"symbols: {len(train.names)} {task.units}")
    else:
        binary = train.names[len(train.names) - written.binary :]
        console.print(f"values: {_listed(train.names)}{f'; 0 or 1: {_listed(binary)}' if binary else ''}")
    if written.depends != "nothing":
        classes = f" (classes {_listed(train.labels)})" if train.labels else ""
        per = "at each step" if written.depends == "sequence" else "for each sequence"
        console.print(f"given: {_listed(train.given)}{classes}, {per}")
    if written.gaps:
        console.print("missing values are marked for the model")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def finish(console: Any, folder: Path, task: Generation) -> None:
    """Print some sequences of symbols, and the command that draws more."""
    from autapse.training import load

    model: Generator = load(folder, trust=True)  # type: ignore[assignment]  # its cell was imported for the training
    if model.classes and model.inputs is None:
        console.print("some samples:")
        for text in model.sample(count=SHOWN):
            console.print(f"  {text}")
    given = {"nothing": "", "vector": " --given VALUE", "sequence": " --given FILE"}[model.depends]
    picture = "" if model.classes else " --picture samples.svg"
    console.print(f"more: autapse sample {folder}{given}{picture}")
