"""`autapse run FILE`: look at the data and choose the settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autapse import checks
from autapse.cli.kind import RunKind
from autapse.tasks import Archive, Forecast, OwnPairs, OwnSequences, OwnSeries, OwnTrees, Task
from autapse.tasks.base import Preset
from autapse.tasks.own import OwnData
from autapse.training.config import RunConfig
from autapse.training.model_config import ModelConfig

if TYPE_CHECKING:
    from autapse.auto import Choice, Look

OF_A_FILE: tuple[type[Task], ...] = (OwnSeries, Forecast, OwnPairs, OwnSequences, OwnTrees)
ENDS_SEARCH = {"steps", "epochs", *(field.name for field in dataclasses.fields(ModelConfig))} - {"streaming", "members"}


class OwnDataKind(RunKind):
    """Classes and values of one's own data."""

    def print_look(self, console: Any, config: RunConfig) -> None:
        from autapse.auto import look

        assert isinstance(config.task, OwnData)
        print_look(console, look(config.task, config.training.seed))


def given_options(words: list[str]) -> set[str]:
    """The names of the options among the words of a command, as fields: --hidden-size is hidden_size."""
    names = {word.partition("=")[0].removeprefix("--") for word in words if word.startswith("--")}
    return {name.removeprefix("no-").replace("-", "_") for name in names}


def preset_of(task: Task, chosen: Preset | None, given: set[str]) -> Preset:
    """The preset: the one that was chosen; otherwise that of the task, unless options describe a network."""
    if chosen is None:
        return "none" if given & ENDS_SEARCH else task.preset
    possible = {"none": ["none"], "recipe": ["recipe", "none"], "auto": ["auto", "recipe", "none"]}[task.preset]
    if chosen not in possible:
        what = {"auto": "your own data", "recipe": "your own data and some built-in series"}[chosen]
        why = f"{chosen} is for classes and values to predict in {what}"
        checks.fail("preset", f"be {' or '.join(possible)} for {task.name}: {why}", chosen)
    return chosen


def run_name(task: Task) -> str:
    """The beginning of the name of a run folder: the file, the data set or the task."""
    if isinstance(task, OF_A_FILE):
        return Path(vars(task)["path"]).name.partition(".")[0].removesuffix("_TRAIN") or task.name
    return task.dataset if isinstance(task, Archive) else task.name


def print_look(console: Any, seen: Look) -> None:
    """Print what was seen in the data."""
    console.print(_table([], seen.rows()), soft_wrap=False)


def print_choice(console: Any, choice: Choice, metric: str) -> None:
    """Print what was tried and what was chosen."""
    rows = [
        (
            ("* " if row["chosen"] else "  ") + row["name"],
            "" if row["score"] is None else f"{row['score']:.4g}",
            "" if row["loss"] is None else f"{row['loss']:.4g}",
            str(row["folds"]),
            str(row["steps"]),
            f"{row['seconds']:.1f} s",
            row["ended"],
        )
        for row in choice.table()
    ]
    heads = ["tried", metric, "loss", "folds", "steps", "time", ""]
    if any(trial.outcomes for trial in choice.trials):
        console.print(_table(heads, rows), soft_wrap=False)
    console.print(f"chosen: {choice.reason}")


def _table(heads: list[str], rows: Sequence[tuple[str, ...]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(show_header=bool(heads), box=box.SIMPLE_HEAD if heads else None, pad_edge=False, padding=(0, 1, 0, 0))
    for n in range(len(rows[0])):
        right = bool(heads) and 0 < n < len(heads) - 1
        table.add_column(heads[n] if heads else "", justify="right" if right else "left", no_wrap=bool(heads))
    for row in rows:
        table.add_row(*row)
    return table
