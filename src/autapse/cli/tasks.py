"""`autapse tasks`: what there is to learn."""

from __future__ import annotations

from dataclasses import dataclass

from autapse.cli.listing import print_listing
from autapse.cli.parse import parse
from autapse.tasks import TASKS


@dataclass
class Tasks:
    """List the tasks: name, what is to be done, the trivial predictor to beat."""


def main(words: list[str]) -> None:
    parse(Tasks, "tasks", words)
    rows = [(name, task.summary, task.about()) for name, task in TASKS.items()]
    print_listing(rows, "Options of a task: autapse run TASK --help")
