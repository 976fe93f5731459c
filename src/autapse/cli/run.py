"""`autapse run TASK`: train a network, evaluate it, save it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import tyro
from tyro.conf import OmitArgPrefixes

from autapse import checks, files, terminal
from autapse.cli.parse import parse, positional, wants_help
from autapse.data.catalogue import ARCHIVE, DATA_SETS, misspelt
from autapse.tasks import TASKS, Archive, OwnSeries, Task, task_class
from autapse.tasks.series import is_own
from autapse.training.config import ModelConfig, RunConfig, TrainingConfig

if TYPE_CHECKING:
    from autapse.training.summary import Summary

T = TypeVar("T", bound=Task)

USAGE = """usage: autapse {command} TASK [options]

{about}

tasks:
{tasks}

`autapse {command} TASK --help` lists all options, including those of the task."""


@dataclass(kw_only=True)
class Train(Generic[T]):
    """The options that run and compare share."""

    task: OmitArgPrefixes[T]
    training: OmitArgPrefixes[TrainingConfig] = field(default_factory=TrainingConfig)
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Folder for the results. It must not exist yet; by default a numbered folder in runs/."""


@dataclass(kw_only=True)
class RunArguments(Train[T]):
    """Train one network on a task. The weights with the best validation score are kept and scored on the test set."""

    model: OmitArgPrefixes[ModelConfig] = field(default_factory=ModelConfig)


def main(words: list[str]) -> int:
    if wants_help(words):
        return task_help("run", "Train a network on a task, evaluate it, and save it under runs/.")
    args = parse_task(RunArguments, "run", words)
    name = args.task.name
    config = RunConfig(task=args.task, model=args.model, training=args.training)

    default = Path("runs") / f"{name}-{config.model.cell.split(':')[0].lower()}"

    with speaking_for_all() as console:
        summary, folder = train_shown(config, console, lambda: make_folder(args.out, default))
        if summary:
            print_summary(console, summary, config)
            console.print(f"\nrun: {folder}")
    return 0


@contextmanager
def speaking_for_all() -> Iterator[Any]:
    """A console on which only rank 0 prints. At the end, this process leaves the process group."""
    from autapse.console import Console
    from autapse.training.distributed import join, leave

    try:
        yield Console(quiet=not join().leads)
    finally:
        leave()


def parse_task(kind: Any, command: str, words: list[str]) -> Any:
    """Parse the arguments of a command whose first word is a task, including the options of the task."""
    name, rest = positional(words, "a task", command, f"autapse {command} adding")
    if name not in TASKS:
        name, rest = _series(name, rest)
    try:
        task = task_class(name)
    except checks.InputError as error:
        raise checks.InputError(f"{error} {_what_else(name, command)}".rstrip()) from None
    return parse(kind[task], f"{command} {name}", rest)


def _series(word: str, rest: list[str]) -> tuple[str, list[str]]:
    """The task and its options for a word that is a file, or a data set of the archive."""
    if is_own(word):
        return OwnSeries.name, ["--path", word, *rest]
    if f"{ARCHIVE}/{word}" in DATA_SETS:
        return Archive.name, ["--dataset", word, *rest]
    return word, rest


def _what_else(word: str, command: str) -> str:
    """A hint for a word that is not a task."""
    if checks.closest(word, TASKS):
        return ""
    if misspelt(word):
        return checks.closest(word, (name.removeprefix(f"{ARCHIVE}/") for name in DATA_SETS))
    if "." in word or "/" in word:
        return "The name of your own file must end in .ts, .tsv, .csv, .npz or .parquet."
    meant = f"For a data set of the UEA and UCR archive: autapse {command} {Archive.name} --dataset {word}"
    return meant if word[:1].isupper() else ""


def one_process_only(command: str, instead: str) -> None:
    """Raise an error if torchrun started several processes."""
    from autapse.training.distributed import processes

    if processes() > 1:
        raise checks.InputError(f"`autapse {command}` runs in one process only. Under torchrun use {instead}.")


def task_help(command: str, about: str) -> int:
    """Print the help of a command without a task."""
    width = max(map(len, TASKS))
    tasks = "\n".join(f"  {name:<{width}}  {task.summary}" for name, task in TASKS.items())
    terminal.write(USAGE.format(command=command, about=about, tasks=tasks))
    return 0


def make_folder(chosen: Path | None, default: Path) -> Path:
    """Create the chosen folder, which must not exist yet; by default a numbered one."""
    return files.numbered_folder(default) if chosen is None else files.new_folder(chosen)


def train_shown(
    config: RunConfig, console: Any, folder: Callable[[], Path], data: Any = None
) -> tuple[Summary | None, Path]:
    """Train a new run and show its progress. The folder is created after everything has been checked and built."""
    from autapse.training.log import Screen
    from autapse.training.trainer import Trainer

    screen = Screen(console, config.model.cell, config.task.metric)
    trainer = Trainer(config, screen, data)
    place = folder() if trainer.world.leads else Path()
    with screen:
        return trainer.start(place).train(), place


def print_summary(console: Any, summary: Summary, config: RunConfig) -> None:
    """Print the test score with the best possible and the trivial score, in two lines."""
    floor = summary.floor
    against = f"trivial ({config.task.baseline_text}): {summary.baseline:.4g}"
    against += "" if floor is None else f"; best possible: {floor:.4g}"
    test = "not finite" if summary.test is None else f"{summary.test:.4g}"
    line = f"{summary.cell}  {summary.parameters} parameters  test {summary.metric} {test}  ({against})"
    console.print(line)
    solved = summary.solved_step
    took = f"{summary.steps} steps in {summary.seconds:.1f} s, best at step {summary.best_step}"
    took += f", solved (below {config.task.solved:g}) at step {solved}" if solved is not None else ""
    took += f", {summary.rescues} gradients rescued" if summary.rescues else ""
    console.print(took)
