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
    from autapse.training.checkpoint import open_run
    from autapse.training.loading import find_run
    from autapse.training.log import Screen
    from autapse.training.loop import Trainer

    folder = find_run(args.run)
    with speaking_for_all() as console:
        run = open_run(folder, args.trust)  # also if it is finished: it may be damaged
        config, progress = run.snapshot.config, run.snapshot.progress
        if progress.finished and (folder / "summary.json").exists():
            run.close()
            console.print(f"{folder} is finished, at step {progress.step}. `autapse eval {folder}` scores it.")
            return 0
        with Screen(console, config.model.cell, config.task.metric) as screen:
            trainer = Trainer.resume_opened(run, screen)
            screen.note(f"{folder}: continuing at step {progress.step}")
            summary = trainer.train()
        if summary:
            print_summary(console, summary, config)
    return 0
