"""`autapse resume RUN`: go on from the last checkpoint, to the same weights as without the stop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from autapse.cli.parse import Trust, parse
from autapse.cli.run import print_summary, speaking_for_all


@dataclass
class Resume(Trust):
    """Go on with a run that was stopped; it ends with the weights it would have had without the stop."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""


def main(words: list[str]) -> int:
    args = parse(Resume, "resume", words)
    from autapse.training.checkpoint import find_run, read_run
    from autapse.training.log import Screen
    from autapse.training.loop import Trainer

    folder = find_run(args.run)
    saved = read_run(folder, args.trust)  # also a finished run may be damaged
    with speaking_for_all() as console:
        if saved.progress.finished and (folder / "summary.json").exists():
            console.print(f"{folder} is finished, at step {saved.progress.step}. `autapse eval {folder}` scores it.")
            return 0
        with Screen(console, saved.config.model.cell, saved.config.task.metric) as screen:
            trainer = Trainer.resume(folder, screen, trust=args.trust)
            screen.note(f"{folder}: going on at step {trainer.progress.step}")
            summary = trainer.train()
        if summary:
            print_summary(console, summary, saved.config)
    return 0
