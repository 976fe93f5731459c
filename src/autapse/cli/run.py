"""`autapse run TASK`: train, evaluate, save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
from tyro.conf import OmitArgPrefixes

from autapse import files
from autapse.cli.parse import parse, positional, wants_help
from autapse.tasks import TASKS, Task, task_class
from autapse.training.config import ModelConfig, RunConfig, TrainingConfig

T = TypeVar("T", bound=Task)

USAGE = """usage: autapse {command} TASK [options]

{about}

tasks:
{tasks}

`autapse {command} TASK --help` lists the options, the task's own among them."""


@dataclass(kw_only=True)
class Run(Generic[T]):
    """Train one network on a task, keep the weights that validate best, score them on the test set."""

    task: OmitArgPrefixes[T]
    model: OmitArgPrefixes[ModelConfig] = field(default_factory=ModelConfig)
    training: OmitArgPrefixes[TrainingConfig] = field(default_factory=TrainingConfig)
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Folder of the run, which must not exist; by default runs/TASK-CELL, numbered."""


def main(words: list[str]) -> int:
    if wants_help(words):
        return task_help("run", "Train a network on a task, evaluate it, and save it under runs/.")
    name, rest = positional(words, "a task", "run", "autapse run adding --cell rin")
    args: Any = parse(Run[task_class(name)], f"run {name}", rest)  # type: ignore[arg-type,misc]
    config = RunConfig(task=args.task, model=args.model, training=args.training)

    default = Path("runs") / f"{name}-{config.model.cell.split(':')[0].lower()}"

    from rich.console import Console

    console = Console()
    summary = train_shown(config, console, lambda: make_folder(args.out, default))
    if summary:
        print_summary(console, summary, config)
        console.print(f"\nrun: {summary['folder']}", highlight=False)
    return 0


def task_help(command: str, about: str) -> int:
    """Help before a task is named."""
    width = max(map(len, TASKS))
    tasks = "\n".join(f"  {name:<{width}}  {task.summary}" for name, task in TASKS.items())
    print(USAGE.format(command=command, about=about, tasks=tasks))
    return 0


def make_folder(chosen: Path | None, default: Path) -> Path:
    """The folder that was asked for, if it is new; by default a numbered one."""
    return files.numbered_folder(default) if chosen is None else files.new_folder(chosen)


def train_shown(config: RunConfig, console: Any, folder: Callable[[], Path], data: Any = None) -> dict[str, Any]:
    """Train a new run with its progress on the screen; its folder is made once everything is checked and built."""
    from autapse.training.log import Screen
    from autapse.training.loop import Trainer

    screen = Screen(console, config.model.cell, 0, config.training.steps, config.task.metric)
    trainer = Trainer(config, screen, data)
    place = folder() if trainer.world.leads else Path()
    with screen:
        summary = trainer.start(place).train()
    return {**summary, "folder": str(place)} if summary else summary


def print_summary(console: Any, summary: dict[str, Any], config: RunConfig) -> None:
    """Test score between the best and the trivial one, in a line or two."""
    floor = summary["floor"]
    against = f"trivial ({config.task.baseline_text}): {summary['baseline']:.4g}"
    against += f"; best possible: {floor:.4g}" if floor else ""
    test = "not finite" if summary["test"] is None else f"{summary['test']:.4g}"
    line = f"{summary['cell']}  {summary['parameters']} parameters  test {summary['metric']} {test}  ({against})"
    console.print(line, highlight=False, soft_wrap=True)
    solved = summary["solved_step"]
    took = f"{summary['steps']} steps in {summary['seconds']:.1f} s, best at step {summary['best_step']}"
    took += f", solved (below {config.task.solved:g}) at step {solved}" if solved is not None else ""
    took += f", {summary['rescues']} gradients rescued" if summary["rescues"] else ""
    console.print(took, highlight=False, soft_wrap=True)
