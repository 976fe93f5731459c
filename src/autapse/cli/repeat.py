"""The command that trains a run again."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autapse import files
from autapse.cli.kinds import kind_of
from autapse.tasks import OwnSeries
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import model_config

if TYPE_CHECKING:
    from autapse.auto import Choice


def command(config: RunConfig) -> str:
    """The command that repeats a run, with every setting that is not the default of its kind of task.

    >>> from autapse.tasks import Adding
    >>> command(RunConfig(task=Adding(length=50), training=TrainingConfig(steps=10)))
    'autapse run adding --preset none --length 50 --steps 10'
    """
    task, usual = config.task, kind_of(config.task).defaults
    words = ["autapse", "run", task.name]
    hidden = set[str]()
    if isinstance(task, OwnSeries):
        words, hidden = ["autapse", "run", task.path], {"path"}
    words += ["--preset", "none", *_options(task, _defaults(type(task)), hidden)]
    words += _options(config.model, vars(usual.model_config()) if usual else _defaults(model_config(type(task))))
    words += _options(config.training, vars(usual.training_config()) if usual else vars(TrainingConfig()))
    return shlex.join(words)


def _defaults(kind: type) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(kind)}


def _options(part: Any, usual: dict[str, Any], hidden: set[str] | None = None) -> list[str]:
    """The fields of a dataclass that differ from the usual values, as options."""
    words = []
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.name in (hidden or ()) or value == usual[field.name]:
            continue
        option = "--" + field.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        else:
            words += [option, *(map(str, value) if isinstance(value, tuple) else [str(value)])]
    return words


def repeat(choice: Choice) -> str:
    """The command that repeats the winner of a search. It has no time limit, because its steps are known."""
    training = dataclasses.replace(choice.config.training, seconds=None)
    return command(dataclasses.replace(choice.config, training=training))


def write_choice(folder: Path, choice: Choice) -> None:
    """Write what was seen and tried into the run folder."""
    content = {
        "look": choice.look.to_json(),
        "tried": choice.table(),
        "chosen": choice.winner,
        "reason": choice.reason,
        "command": repeat(choice),
    }
    files.write_json(folder / "choice.json", content)
