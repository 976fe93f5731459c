"""What a run prints at its end: the scores, and a warning if they are not better than the trivial ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autapse.tasks import POS
from autapse.tasks.own import OwnData

if TYPE_CHECKING:
    from autapse.training.config import RunConfig
    from autapse.training.summary import Summary

MOST_CLASSES = 12  # in the table that is printed; summary.json has all
USEFUL = 0.1  # balanced accuracy above that of a trivial predictor


def print_summary(console: Any, summary: Summary, config: RunConfig) -> None:
    """Print the test score with the best possible and the trivial score, how long it took, and the other scores."""
    task, floor = config.task, summary.floor
    if summary.baseline is None:
        console.print(f"{summary.cell}  {summary.parameters} parameters  no test data")
    else:
        against = f"trivial ({task.baseline_text}): {summary.baseline:.4g}"
        against += "" if floor is None else f"; best possible: {floor:.4g}"
        test = "not finite" if summary.test is None else f"{summary.test:.4g}"
        console.print(f"{summary.cell}  {summary.parameters} parameters  test {summary.metric} {test}  ({against})")
    solved = summary.solved_step
    took = f"{summary.steps} steps in {summary.seconds:.1f} s, best at step {summary.best_step}"
    if summary.stopped_by == "closed form":
        took = f"all weights that can learn were solved in {summary.seconds:.1f} s, without the optimizer"
    took += f", solved (below {task.solved:g}) at step {solved}" if solved is not None else ""
    took += f", {summary.rescues} gradients rescued" if summary.rescues else ""
    console.print(took)
    print_scores(console, summary)
    table = class_table(summary) if isinstance(task, OwnData | POS) else None
    if table is not None:
        console.print(table, soft_wrap=False)
    if summary.trivial:
        console.print(trivial_warning(summary, task.baseline_text), style="bold red")


def trivial_warning(summary: Summary, baseline_text: str) -> str:
    """The warning that a model is useless."""
    test = "is not finite" if summary.test is None else f"{summary.test:.4g} is not better"
    trivial = f"{summary.baseline:.4g} of the trivial predictor ({baseline_text})"
    chance, balanced = summary.trivial_balanced_accuracy, summary.balanced_accuracy
    if chance is not None and balanced is not None and balanced > chance + USEFUL:
        rest = f"Its balanced accuracy, {balanced:.4g}, is better ({chance:.4g}): rare classes count as much there."
    else:
        rest = "This model is of no use."
    return f"WARNING: the test {summary.metric} {test} than the {trivial}. {rest}"


def print_scores(console: Any, summary: Summary) -> None:
    """Print the scores beside the task's metric."""
    for row in summary.targets or ():
        explained = "" if row["r2"] is None else f"R² {row['r2']:.4f}, "
        console.print(f"{row['target']}: {explained}mean absolute error {row['mean_absolute_error']:.4g}")
    if summary.mean_absolute_error is not None and not summary.targets:
        explained = "" if summary.r2 is None else f"R² {summary.r2:.4f}, "
        console.print(f"{explained}mean absolute error {summary.mean_absolute_error:.4g}")
    if summary.symbol_error_rate is not None:
        symbols, sequences = summary.symbol_error_rate, summary.wrong_sequences
        console.print(f"wrong sequences {sequences:.4f}, symbol error rate {symbols:.4f}")
    if summary.root_error is not None and summary.node_error is not None:
        console.print(f"error rate of roots {summary.root_error:.4f}, of all nodes {summary.node_error:.4f}")
    if summary.nats_per_sequence is not None:
        console.print(f"{summary.nats_per_sequence:.4g} nats per sequence")
    if summary.free_running_error is not None:
        console.print(f"free-running error {summary.free_running_error:.4g} of the variance")
    if summary.length_distance is not None:
        console.print(f"distance between generated and true lengths {summary.length_distance:.4f} (0 to 1)")
    if summary.balanced_accuracy is not None:
        console.print(f"balanced accuracy {summary.balanced_accuracy:.4f}, macro F1 {summary.macro_f1:.4f}")
    if summary.spans:
        *kinds, whole = summary.spans
        each = ", ".join(f"{row['class']} {row['f1']:.4f}" for row in kinds[:MOST_CLASSES])
        console.print(f"F1 of spans {whole['f1']:.4f} ({each})")


def class_table(summary: Summary) -> Any:
    """The scores of each class and its confusions, of many classes the most frequent; None if there are no classes."""
    from rich import box
    from rich.table import Table

    rows, confusion = summary.classes, summary.confusion
    if not rows or not confusion:
        return None
    shown = sorted(range(len(rows)), key=lambda n: -rows[n]["count"])[:MOST_CLASSES]
    title = "test data, by class" if len(shown) == len(rows) else f"test data, the {len(shown)} most frequent classes"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("class", no_wrap=True)
    for heading in ("count", "precision", "recall", "F1"):
        table.add_column(heading, justify="right")
    table.add_column("predicted as", no_wrap=True)
    for row, counts in ((rows[n], confusion[n]) for n in sorted(shown)):
        shares = (f"{row[name]:.3f}" if row[name] is not None else "" for name in ("precision", "recall", "f1"))
        order = sorted(range(len(counts)), key=lambda n: -counts[n])
        places = ", ".join(f"{rows[n]['class']}: {counts[n]}" for n in order[:4] if counts[n])
        table.add_row(row["class"], str(row["count"]), *shares, places)
    return table
