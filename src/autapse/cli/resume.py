"""`autapse resume RUN`: continue a run from its last checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from autapse.cli import online
from autapse.cli.kinds import kind_of
from autapse.cli.parse import Trust, parse
from autapse.cli.run import speaking_for_all
from autapse.cli.summary import print_summary


@dataclass
class Resume(Trust):
    """Continue a run that was stopped. It ends with the same weights as a run that was never stopped.

    With --steps, a finished run is trained further.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run folder."""
    steps: int | None = None
    """Train up to this step instead, also if the run is finished. Its time limit then no longer holds."""


def main(words: list[str]) -> int:
    args = parse(Resume, "resume", words)
    if (args.run / "online.json").exists():
        return online.resume(args.run, args.steps)
    from autapse.training.checkpoint import open_run
    from autapse.training.loading import find_run
    from autapse.training.log import Screen
    from autapse.training.trainer import Trainer

    folder = find_run(args.run)
    with speaking_for_all() as console:
        run = open_run(folder, args.trust)  # a finished run may be damaged too
        config, progress = run.snapshot.config, run.snapshot.progress
        if args.steps is None and progress.finished and (folder / "summary.json").exists():
            run.close()
            console.print(f"{folder} is finished, at step {progress.step}. `autapse eval {folder}` scores it.")
            return 0
        with Screen(console, config.model.network, config.task.metric) as screen:
            trainer = Trainer.resume_opened(run, screen, steps=args.steps)
            screen.note(f"{folder}: continuing at step {progress.step}")
            summary = trainer.train()
        if summary:
            print_summary(console, summary, config)
            kind_of(config.task).finish(console, folder, config, summary)
    return 0
