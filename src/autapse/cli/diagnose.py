"""`autapse diagnose RUN`: look inside the network of a run, on its own test data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from autapse import checks, files
from autapse.cli.parse import Trust, parse
from autapse.tasks import Split


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
    """Seconds. Probes stop when the time is over, and say how far they got."""
    out: Path | None = None
    """Where the numbers are written as JSON; by default diagnosis.json in the run folder."""

    def __post_init__(self) -> None:
        checks.integer("sequences", self.sequences, minimum=1)
        checks.integer("layer", self.layer, minimum=0)
        checks.number("budget", self.budget, low=0.0)


def main(words: list[str]) -> None:
    args = parse(Diagnose, "diagnose", words)
    from autapse.console import Console
    from autapse.diagnostics.diagnosis import PROBES
    from autapse.diagnostics.trajectories import MOST_UNITS
    from autapse.report.inside import FILE, cut_short, diagnose_run
    from autapse.training import load_run
    from autapse.training.loading import check_data

    model, config, known = load_run(args.run, trust=args.trust)
    check_data(config.task.signature(), known, args.run)
    console = Console()
    with Console(stderr=True).counting(len(PROBES)) as say:
        diagnosis = diagnose_run(
            model,
            config,
            args.run,
            split=args.split,
            sequences=args.sequences,
            layer=args.layer,
            budget=args.budget,
            notify=say,
        )
    where = args.out or (args.run.parent if args.run.is_file() else args.run) / FILE
    files.write_json(where, diagnosis)
    for finding in diagnosis["findings"]:
        console.print(finding["sentence"])
    if late := cut_short(diagnosis):
        console.print(f"Too little time for: {', '.join(late)}. More time: --budget {max(60, 2 * args.budget):g}")
    if large := diagnosis["too_large"]:
        console.print(f"Too many units for: {', '.join(large)}. They need a state of at most {MOST_UNITS} units.")
    count, seconds = len(diagnosis["findings"]), diagnosis["seconds"]
    console.print(f"{count} numbers from {diagnosis['sequences']} sequences in {seconds:.1f} s: {where}")
