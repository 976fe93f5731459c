"""`autapse tasks`: what there is to learn."""

from __future__ import annotations

from dataclasses import dataclass

from autapse.cli.parse import parse


@dataclass
class Tasks:
    """List the tasks: name, what is to be done, the trivial predictor to beat."""


def main(words: list[str]) -> None:
    parse(Tasks, "tasks", words)
    from rich.console import Console

    from autapse.tasks import TASKS

    console = Console(highlight=False)
    width = max(map(len, TASKS))
    for name, task in TASKS.items():
        console.print(f"[bold]{name:<{width}}[/]  {task.summary}", soft_wrap=True)
        trivial = f"{task.kind}, {task.metric}; trivial predictor: {task.baseline_text}"
        console.print(f"{'':<{width}}  {trivial}", style="dim", soft_wrap=True, markup=False)
    console.print("\nOptions of a task: autapse run TASK --help", markup=False)
