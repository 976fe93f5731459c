"""`autapse tasks`: list the tasks."""

from __future__ import annotations

from dataclasses import dataclass

from autapse.cli.listing import print_groups
from autapse.cli.parse import parse
from autapse.data import paths
from autapse.data.catalogue import ARCHIVE
from autapse.tasks import TASKS, Archive, Forecast, OwnSequences, OwnSeries, Stored, Task, offered


@dataclass
class Tasks:
    """List the tasks with their trivial predictors and the data sets that they need."""


def main(words: list[str]) -> None:
    parse(Tasks, "tasks", words)
    stored = {name for name, task in TASKS.items() if issubclass(task, Stored | Forecast)}
    groups = {
        "Generated:": [_row(task) for name, task in TASKS.items() if name not in stored],
        "From data sets:": [_row(task) for name, task in TASKS.items() if name in stored],
    }
    others: list[tuple[str, str, str]] = [(name, point.value, "") for name, point in offered().items()]
    if others:
        groups["From other packages:"] = others
    print_groups(groups, "Options of a task: autapse run TASK --help. Data sets: autapse data list")


def _row(task: type[Task]) -> tuple[str, str, str]:
    data = f"; {_data(task)}" if issubclass(task, Stored | Forecast) else ""
    return task.name, task.summary, task.about() + data


def _data(task: type[Stored | Forecast]) -> str:
    """The data sets of a task, and whether they are here. No file is opened."""
    if not issubclass(task, Stored) or task in (OwnSeries, OwnSequences):
        return "data: your file"
    if task is Archive:
        here = sorted(path.name for path in (paths.data_root() / ARCHIVE).glob("*") if path.is_dir())
        return f"data: {ARCHIVE}/NAME, {', '.join(here)} here" if here else f"data: {ARCHIVE}/NAME, none here"
    here = [name for name in task.data_sets if paths.find(name)]
    return f"data: {' or '.join(task.data_sets)}, {'here' if here else 'not here'}"
