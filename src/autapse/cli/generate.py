"""`autapse run FILE --generate`: which task it is, what is printed before and after the training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import OmitArgPrefixes

from autapse.cli.kind import RunArguments, RunKind, T
from autapse.tasks import OwnSequences
from autapse.tasks.text_file import is_text
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.generate_settings import GENERATE
from autapse.training.model_config import WriterConfig

if TYPE_CHECKING:
    from autapse.models import Generator
    from autapse.training import Summary

OPTION = "--generate"
SHOWN = 5  # sequences of symbols that are printed at the end


def as_generation(path: str, words: list[str]) -> list[str] | None:
    """The options of the task `generate` for a text file, or for a file with `--generate`; None for others."""
    if OPTION not in words and not is_text(path):
        return None
    return ["--path", path, *(word for word in words if word != OPTION)]


@dataclass(kw_only=True)
class GenerateArguments(RunArguments[T, WriterConfig]):
    """Train a network that generates sequences like those of a file, within --seconds (120).

    The weights with the best validation score are kept, and scored on the test part.
    """

    training: OmitArgPrefixes[TrainingConfig] = field(default_factory=GENERATE.training_config)
    model: OmitArgPrefixes[WriterConfig] = field(default_factory=GENERATE.model_config)


class GenerateKind(RunKind):
    """Sequences to generate."""

    def finish(self, console: Any, folder: Path, config: RunConfig, summary: Summary) -> None:
        finish(console, folder)


class OwnSequencesKind(GenerateKind):
    """The same for people's own sequences."""

    arguments, defaults = GenerateArguments, GENERATE

    def print_look(self, console: Any, config: RunConfig) -> None:
        assert isinstance(config.task, OwnSequences)
        print_look(console, config.task)


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


def finish(console: Any, folder: Path) -> None:
    """Print some sequences of symbols, and the command that draws more."""
    from autapse.training import load

    model: Generator = load(folder, trust=True)  # type: ignore[assignment]  # its cell was imported for the training
    if model.classes and model.inputs is None:
        console.print("some samples:")
        for text in model.sample(count=SHOWN):
            console.print(f"  {text}")
    value = model.words[0][0] if model.words else "VALUE"
    given = {"nothing": "", "vector": f" --given {value}", "sequence": " --given FILE"}[model.depends]
    picture = "" if model.classes else " --picture samples.svg"
    console.print(f"more: autapse sample {folder}{given}{picture}")
