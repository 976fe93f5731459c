"""`autapse eval RUN`: the score of the best weights of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from autapse import checks, terminal
from autapse.cli.parse import Trust, parse
from autapse.tasks import Split


@dataclass
class Eval(Trust):
    """Score the best weights of a run on one split of its task. The run need not be finished."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or a checkpoint file."""
    split: Split = "test"
    """The split to score: train, validation or test."""


def main(words: list[str]) -> None:
    args = parse(Eval, "eval", words)
    from autapse.training import Tensors, evaluate, load_run
    from autapse.training.loading import check_data
    from autapse.training.objectives import objective

    model, config, known = load_run(args.run, trust=args.trust)
    check_data(config.task.signature(), known, args.run)
    data = config.task.split(args.split, config.training.seed)
    if not len(data):
        option = "test_share" if args.split == "test" else "validation"
        raise checks.InputError(f"{args.run} was trained without a {args.split} set: its task has {option} = 0.")
    score = evaluate(model, Tensors.of(data, "cpu"), objective(config.task))
    floor = config.task.floor(data)
    terminal.write(f"{args.split} {config.task.metric}: {score:.6g}")
    terminal.write(f"trivial ({config.task.baseline_text}): {config.task.baseline(data):.6g}")
    if floor is not None:
        terminal.write(f"best possible: {floor:.6g}")
