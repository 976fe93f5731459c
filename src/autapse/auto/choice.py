"""The preset `auto`: look at the data, race a handful of configurations, and train the best on all training data."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from autapse import checks
from autapse.auto.candidates import candidates
from autapse.auto.folds import Folded, fold
from autapse.auto.overview import Look, look
from autapse.auto.pool import Pool
from autapse.auto.race import Trial, race
from autapse.auto.trial import Job, seconds_per_step
from autapse.tasks.own import OwnData
from autapse.tasks.stored import Examples
from autapse.training.config import RunConfig
from autapse.training.log import Quiet, Show
from autapse.training.loop import threads
from autapse.training.model_config import ModelConfig

SECONDS = 120.0
SEARCH = 0.3  # of the time, for the search
MARGIN = 0.85  # of the time that is left, for the steps of the last training: the rest absorbs what slows it down
STEPS = (400, 200, 100)  # of one trial, as time allows: fewer tell nothing
SLOWER = 1.2  # than the recipe, for the slower candidates and the start of the helpers
FASTER = 0.75  # of the time with one thread, that several threads must take to be used
SMALLEST = 8  # training sequences, below which nothing is compared
MEMBERS = 4  # networks that are trained at most: more help little, and make the model large
LEAST_STEPS = 0.75  # of those that one network has time for, that several must have: they are worth a quarter


@dataclass(frozen=True, eq=False)
class Choice:
    """What a search chose for a task, and what it tried."""

    config: RunConfig
    """The settings: of the winner, for all training data."""
    look: Look
    """What was seen in the data."""
    trials: tuple[Trial, ...]
    """What was tried."""
    winner: str
    """The name of the winner."""
    reason: str
    """Why."""

    def table(self) -> list[dict[str, Any]]:
        """What was tried, as plain data: one row per candidate."""
        return [
            {
                "name": trial.candidate.name,
                "score": trial.score if trial.outcomes else None,
                "loss": trial.loss if trial.outcomes else None,
                "folds": len(trial.outcomes),
                "steps": max((outcome.steps for outcome in trial.outcomes), default=0),
                "seconds": round(sum(outcome.seconds for outcome in trial.outcomes), 1),
                "ended": trial.ended,
                "chosen": trial.candidate.name == self.winner,
            }
            for trial in self.trials
        ]


def choose(
    task: OwnData,
    *,
    seconds: float = SECONDS,
    seed: int = 0,
    model: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    given: set[str] | None = None,
    runs: int = 1,
    weights: np.ndarray | None = None,
    show: Show | None = None,
) -> Choice:
    """Choose the settings for a task by cross-validation on its training data.

    Args:
        task: a task with your own data.
        seconds: time for the search and for the training that follows it.
        seed: of the folds and of the trainings.
        model: settings of the network that are kept as they are, by name.
        training: settings of the training that are kept as they are, by name.
        given: names of further options, those of the task, that no candidate may change.
        runs: number of trainings that follow and share the time.
        weights: [N] the weight of each training sequence in the loss, above 0; None for 1.
        show: where notes are shown; nowhere by default.

    Returns:
        The choice. `choice.config` trains on all training data within the rest of the time. The same seed gives the
        same choice, apart from what the clock cuts.

    >>> import numpy as np
    >>> from autapse.tasks import ArrayTask
    >>> x = np.random.default_rng(0).normal(size=(8, 5, 1))
    >>> choice = choose(ArrayTask(x, ["a", "b"] * 4), seconds=5, training={"steps": 20})
    >>> choice.config.training.steps, choice.config.task.validation
    (20, 0.0)
    """
    start = time.time()
    checks.number("seconds", seconds, above=0.0)
    model, training = dict(model or {}), {"seed": seed, **(training or {})}
    training.pop("seconds", None)
    seen = look(task, seed, search=True)
    fixed = {*model, *training, *(given or ())}
    whole = task.changed(validation=0.0)
    field = candidates(whole, seen.series_spread, model, training, fixed)
    data = replace(whole.parts().train, weights=weights)
    trials = [Trial(one, one.config.task.signature()) for one in field]
    best, reason = _search(trials, fold(data, seed), start, seconds, show or Quiet())
    config = _last_training(best, data, start + seconds - time.time(), runs, fixed)
    if config.reader.members > 1:
        reason += f"; {config.reader.members} networks that answer together"
    return Choice(config, replace(seen, reasons=(*seen.reasons, reason)), tuple(trials), best.candidate.name, reason)


def _search(trials: list[Trial], data: Folded, start: float, seconds: float, show: Show) -> tuple[Trial, str]:
    first = trials[0]
    if len(data.fold) < SMALLEST:
        return first, f"the recipe, because {len(data.fold)} training sequences are too few to compare others"
    processes = torch.get_num_threads()
    with Pool(data, processes) as pool:
        job = Job(
            model=first.candidate.config.reader,
            training=first.candidate.config.training,
            signature=first.signature,
            fold=0,
            until=start + seconds,
        )
        step = seconds_per_step(job, pool.split(0)["train"])
        until = start + SEARCH * seconds
        most = first.candidate.config.training.steps
        affordable = (until - time.time()) * min(processes, len(trials)) / step
        plan = _plan(len(trials), data.count, most, affordable)
        if plan is None:
            return first, "the recipe, because there is no time to compare others"
        count, folds, steps = plan
        for trial in trials[count:]:
            trial.ended = "no time"
        best = race(trials[:count], pool, folds, steps, until, show.note)
    where = f"{folds} of {data.count} folds" if data.count > 1 else "a validation set"
    why = f"the best of {count}" if best is not first else f"none of the {count - 1} others was clearly better"
    return best, f"{best.candidate.name}: {why}, on {where} after {steps} steps each"


def _plan(trials: int, folds: int, most: int, affordable: float) -> tuple[int, int, int] | None:
    """How many candidates, folds and steps of each the time allows.

    Args:
        trials: number of candidates.
        folds: number of folds.
        most: steps of the last training. A trial has no more.
        affordable: steps that the time allows in all.

    Returns:
        The first plan that fits: fewer steps before fewer folds before fewer candidates. The steps are one of a few
        numbers, so that the clock seldom changes them.
    """
    for count in range(trials, 1, -1):
        for used in range(folds, min(folds, 2) - 1, -1):
            jobs = count + (used - 1) * (count + 1) / 2  # half of them drop out after the first fold
            for steps in (min(number, most) for number in STEPS):
                if jobs * steps * SLOWER <= affordable:
                    return count, used, steps
    return None


def _last_training(best: Trial, data: Examples, left: float, runs: int, fixed: set[str]) -> RunConfig:
    """The config of the winner, with as many networks and steps as the time allows."""
    config, time_each = best.candidate.config, max(left, 1.0) / runs
    if fixed & {"steps", "epochs"}:
        return config
    most = 1 if "members" in fixed or config.reader.streaming else MEMBERS  # one network is enough for a device
    with threads(config.training.threads if "threads" in fixed else None):
        paces = _paces(best, data, most)
    affordable = {members: int(MARGIN * time_each / pace.seconds) for members, pace in paces.items()}
    steps = {members: max(1, min(config.training.steps, number)) for members, number in affordable.items()}
    members = max(members for members in steps if steps[members] >= LEAST_STEPS * steps[1])
    limits: dict[str, Any] = {"steps": steps[members], "seconds": round(time_each, 1)}
    if "threads" not in fixed:
        limits["threads"] = paces[members].threads
    return replace(config, model=_joined(config, members), training=replace(config.training, **limits))


class Pace(NamedTuple):
    """How long a training step takes."""

    seconds: float
    threads: int | None
    """With how many threads; None for all."""


def _paces(best: Trial, data: Examples, most: int) -> dict[int, Pace]:
    """The pace for each number of networks. Several learn side by side, one thread each."""
    config, count, read = best.candidate.config, torch.get_num_threads(), data.data()

    def seconds(members: int) -> float:
        model, training = _joined(config, members), config.training
        return seconds_per_step(Job(model=model, training=training, signature=best.signature, fold=0, until=0.0), read)

    with threads(1):
        one = seconds(1)
    paces = {members: Pace(members * one, 1) for members in range(1, most + 1)}
    if count > 1 and (all_threads := seconds(1)) < FASTER * one:
        paces[1] = Pace(all_threads, None)
    if (beside := min(count, most)) > 1:
        turn = seconds(beside)
        paces |= {members: Pace(math.ceil(members / beside) * turn, None) for members in range(2, most + 1)}
    return paces


def _joined(config: RunConfig, members: int) -> ModelConfig:
    return config.reader if members == 1 else replace(config.reader, members=members)
