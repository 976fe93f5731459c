"""`autapse diagnose RUN`: look inside the network of a run, on its own test data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from autapse import checks, files
from autapse.cli.parse import Trust, parse
from autapse.tasks import Split

if TYPE_CHECKING:
    from autapse.training.feeds import Batch, Tensors

FILE = "diagnosis.json"


@dataclass
class Diagnose(Trust):
    """Look inside the network of a run: the numbers that explain it, with one sentence each."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or a checkpoint file."""
    split: Split = "test"
    """The split whose sequences are used: train, validation or test."""
    sequences: int = 32
    """Number of sequences."""
    layer: int = 0
    """Which layer of a stack."""
    budget: float = 60.0
    """Seconds. No probe is started after that."""
    out: Path | None = None
    """Where the numbers are written as JSON; by default diagnosis.json in the run folder."""

    def __post_init__(self) -> None:
        checks.integer("sequences", self.sequences, minimum=1)
        checks.integer("layer", self.layer, minimum=0)
        checks.number("budget", self.budget, low=0.0)


def main(words: list[str]) -> None:
    args = parse(Diagnose, "diagnose", words)
    from autapse.console import Console
    from autapse.diagnostics.diagnosis import diagnose
    from autapse.models.base import as_reader
    from autapse.training import Tensors, load_run
    from autapse.training.loading import check_data
    from autapse.training.objectives import objective

    model, config, known = load_run(args.run, trust=args.trust)
    check_data(config.task.signature(), known, args.run)
    data = config.task.split(args.split, config.training.seed)
    if not len(data):
        raise checks.InputError(f"{args.run} has no {args.split} data. Choose another split with --split.")
    goal, batch = objective(config.task), _batch(Tensors.of(data, "cpu"), args.sequences)
    count = (goal.score_count or goal.count)(batch)
    console = Console()
    with Console(stderr=True).working("looking inside") as say:
        found = diagnose(
            as_reader(model),
            batch.inputs,
            batch.lengths,
            loss=lambda output: goal.loss(output, batch.targets) / goal.count(batch),
            score=lambda output: goal.metric(float(goal.score(output, batch.targets)) / count),
            layer=args.layer,
            budget=args.budget,
            notify=say,
        )
    where = _where(args)
    files.write_json(where, _about(args, batch) | found.to_json())
    for finding in found.findings:
        console.print(finding.sentence)
    console.print(f"{len(found.findings)} numbers from {len(batch.inputs)} sequences in {found.seconds:.1f} s: {where}")


def _batch(data: Tensors, count: int) -> Batch:
    """Some sequences from all over the data, or the first pieces of a text."""
    from autapse.training.feeds import in_order

    if data.span is not None:
        return next(iter(in_order(data, count)))
    chosen = {round(n * (len(data) - 1) / max(1, count - 1)) for n in range(min(count, len(data)))}
    return data.take(sorted(chosen) if len(data) > count else list(range(len(data))), (13,))


def _where(args: Diagnose) -> Path:
    if args.out is not None:
        return args.out
    return (args.run.parent if args.run.is_file() else args.run) / FILE


def _about(args: Diagnose, batch: Any) -> dict[str, Any]:
    size = {"sequences": len(batch.inputs), "steps": int(batch.inputs.shape[1])}
    return {"run": str(args.run), "split": args.split, "layer": args.layer, **size}
