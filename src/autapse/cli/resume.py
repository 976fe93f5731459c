"""`autapse resume RUN`: continue a run from its last checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from autapse.cli.parse import Trust, parse
from autapse.cli.run import print_summary, speaking_for_all


@dataclass
class Resume(Trust):
    """Continue a run that was stopped. It ends with the same weights as a run that was never stopped."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run folder."""


def main(words: list[str]) -> int:
    args = parse(Resume, "resume", words)
    from autapse.training.checkpoint import find_run, read_run
    from autapse.training.log import Screen
    from autapse.training.loop import Trainer

    folder = find_run(args.run)
    saved = read_run(folder, args.trust)  # a finished run may be damaged too
    with speaking_for_all() as console:
        if saved.progress.finished and (folder / "summary.json").exists():
            console.print(f"{folder} is finished, at step {saved.progress.step}. `autapse eval {folder}` scores it.")
            return 0
        with Screen(console, saved.config.model.cell, saved.config.task.metric) as screen:
            trainer = Trainer.resume(folder, screen, trust=args.trust)
            screen.note(f"{folder}: continuing at step {trainer.progress.step}")
            summary = trainer.train()
        if summary:
            print_summary(console, summary, saved.config)
    return 0
