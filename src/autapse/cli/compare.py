"""`autapse compare TASK --cells a,b,c`: train several networks, print one table and draw one figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tyro.conf import OmitArgPrefixes

from autapse import checks, files
from autapse.cli.kind import Train
from autapse.cli.parse import wants_help
from autapse.cli.run import make_folder, one_process_only, parse_task, task_help, train_shown
from autapse.tasks import Task
from autapse.training.config import RunConfig
from autapse.training.model_config import StackConfig, model_config, stack_config

if TYPE_CHECKING:
    from autapse.training.summary import Summary

T = TypeVar("T", bound=Task)
S = TypeVar("S", bound=StackConfig)


@dataclass(kw_only=True)
class Compare(Train[T], Generic[T, S]):
    """Train several networks on a task with the same settings and data. Print one table and draw one figure."""

    cells: str = "rin,antisymmetric,ernn,gru,lstm"
    """Networks, separated by commas, with options as in ernn:inner_steps=2."""
    stack: OmitArgPrefixes[S]

    @staticmethod
    def settings(task: type[Task]) -> type:
        return stack_config(task)


def main(words: list[str]) -> int:
    if wants_help(words):
        return task_help("compare", "Train several networks on a task. Print one table and draw one figure.")
    args = parse_task(Compare, "compare", words)
    one_process_only("compare", "`autapse run` for each network")
    model = model_config(type(args.task))
    runs = {
        cell: RunConfig(task=args.task, model=model(cell=cell, **vars(args.stack)), training=args.training)
        for cell in split_cells(args.cells)
    }
    config = next(iter(runs.values()))

    from autapse.console import Console
    from autapse.training.loop import checked_device, load_splits
    from autapse.training.model import build_model
    from autapse.training.rescue import Diverged
    from autapse.training.trainer import Interrupted

    checked_device(config.training.device)
    for run in runs.values():
        build_model(run)  # find a mistake in the last network before the first one is trained
    data = load_splits(config)
    console = Console()
    folder = make_folder(args.out, Path("runs") / f"compare-{args.task.name}")
    summaries, diverged, interrupted = [], [], None
    for cell, run in runs.items():
        try:
            summary, _ = train_shown(run, console, partial(files.new_folder, folder / safe_name(cell)), data)
            assert summary is not None, "one process trains them all"
            summaries.append(summary)
        except Diverged as error:  # the others are still trained
            diverged.append(cell)
            console.print(f"{cell}: {error}")
        except Interrupted as error:
            interrupted = error
            break
    if summaries:
        report(console, folder, config, summaries, diverged)
    if interrupted:
        raise interrupted
    return 1 if diverged else 0


def report(console: Any, folder: Path, config: RunConfig, summaries: list[Summary], diverged: list[str]) -> None:
    """Write comparison.json and the figure. Print the table and the paths."""
    settings = config.to_json()
    del settings["model"]["cell"]  # the one thing that differs
    results = [{**one, "folder": str(folder / safe_name(one.cell))} for one in summaries]
    content = {"config": settings, "results": results, "diverged": diverged}
    files.write_json(folder / "comparison.json", content)
    console.print()
    console.print(table(summaries, config, diverged), soft_wrap=False)
    console.print(f"\nruns and comparison.json: {folder}")
    console.print(draw(folder, config, summaries))
    console.print(write_page(folder))


def write_page(folder: Path) -> str:
    """Write the report without probes, which can take longer. Returns a line with the path."""
    from autapse.cli.report import FILE, subject_of, write

    write(folder / FILE, subject_of(folder), budget=None, trust=True)  # this command has trained them
    return f"report: {folder / FILE} (`autapse report {folder}` adds what probes find inside)"


def split_cells(text: str) -> list[str]:
    """Split a list of cells at its commas; a comma inside brackets is part of an option's value."""
    cells = [cell.strip() for cell in re.split(r",(?![^(\[]*[)\]])", text) if cell.strip()]
    if not cells:
        checks.fail("cells", "name at least one network", text, "`autapse cells` lists them.")
    twice = [cell for cell in cells if cells.count(cell) > 1]
    if twice:
        checks.fail("cells", "name each network once", twice[0])
    return cells


def safe_name(cell: str) -> str:
    """The name of the run folder of a cell with options."""
    return re.sub(r"[^\w.=-]+", "_", cell).strip("_")


def table(summaries: list[Summary], config: RunConfig, diverged: Sequence[str] = ()) -> Any:
    """Cell, parameters, test score, its ratio to the trivial score, steps to solve, time."""
    from rich import box
    from rich.table import Table

    task, first = config.task, summaries[0]
    lines = [f"{task.name}, {task.metric}"]
    lines += ["no test data"] if first.baseline is None else [f"trivial ({task.baseline_text}): {first.baseline:.3f}"]
    lines += [] if first.floor is None else [f"best possible: {first.floor:.3g}"]
    lines += [] if task.solved is None else [f"solved: below {task.solved:g} in validation"]
    shown = Table(
        title="\n".join(lines), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    shown.add_column("cell", no_wrap=True)
    for heading in ("parameters", "test error", "of trivial", "steps to solve", "time"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for summary in summaries:
        test, trivial = summary.test, summary.baseline
        shown.add_row(
            summary.cell,
            f"{summary.parameters:,}",
            "not finite" if test is None else f"{test:.5f}",
            "" if test is None or not trivial else f"{100 * test / trivial:.1f} %",
            "not solved" if summary.solved_step is None else f"{summary.solved_step:,}",
            f"{summary.seconds:.1f} s",
        )
    for cell in diverged:
        shown.add_row(cell, "", "diverged")
    return shown


def draw(folder: Path, config: RunConfig, summaries: list[Summary]) -> str:
    """Draw the learning curves of all networks. Returns a line with the path, or with the way to install matplotlib."""
    from autapse.diagnostics.plots import plot_curves
    from autapse.training.log import read_metrics

    curves = {}
    for summary in summaries:
        cell = summary.cell
        records = read_metrics(folder / safe_name(cell) / "metrics.jsonl")
        curves[cell] = [(r["step"], r["validation"]) for r in records if r.get("validation") is not None]
    limits = {f"trivial: {config.task.baseline_text}": summaries[0].baseline, "best possible": summaries[0].floor}
    lines = {name: value for name, value in limits.items() if value}  # a logarithmic axis cannot show 0
    path = folder / "curves.png"
    try:
        plot_curves(path, curves, lines, f"validation {config.task.metric}", config.task.name)
    except checks.InputError as error:  # matplotlib is optional; everything else is already written
        return str(error)
    return f"figure: {path}"
