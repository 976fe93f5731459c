"""A race of candidates over the folds: those that are clearly worse than the leader drop out after each fold."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from autapse.auto.candidates import Variant
from autapse.auto.pool import Pool
from autapse.auto.trial import Job, Outcome
from autapse.tasks import Signature

# Standard errors of a paired difference. More are needed to beat the first candidate, which is known to be good on many
# data sets: the best of several others is often a little better by chance.
DROP = 1.0  # by which a candidate must be worse than the leader to drop out
WIN = 2.0  # by which it must be better than the first to win


@dataclass(eq=False)
class Trial:
    """A candidate in the race."""

    candidate: Variant
    signature: Signature
    outcomes: list[Outcome] = field(default_factory=list)
    ended: str = ""
    """Why it is not in the race any more; empty if it reached the end."""

    @property
    def losses(self) -> np.ndarray:
        """The loss of each sequence that validated it."""
        return np.concatenate([outcome.losses for outcome in self.outcomes]) if self.outcomes else np.empty(0)

    @property
    def score(self) -> float:
        """Its mean validation score, in the task's metric."""
        scores = [score for outcome in self.outcomes for score in outcome.scores]
        return float(np.mean(scores)) if scores else math.nan

    @property
    def loss(self) -> float:
        """Its mean validation loss."""
        return float(self.losses.mean()) if self.outcomes else math.nan


def race(trials: list[Trial], pool: Pool, folds: int, steps: int, until: float, note: Callable[[str], None]) -> Trial:
    """Run the candidates.

    Args:
        trials: the candidates. The first one wins unless another is clearly better.
        pool: where they are trained.
        folds: number of folds.
        steps: training steps of each.
        until: when the race ends, by `time.time()`.
        note: called with one line after each fold.

    Returns:
        The winner.
    """
    for number in range(folds):
        running = [trial for trial in trials if not trial.ended]
        if (len(running) == 1 and number > 0) or time.time() > until:
            break
        jobs = [_job(trial, number, steps, until) for trial in running]
        for trial, outcome in zip(running, pool.map(jobs), strict=True):
            if outcome is None or not all(map(math.isfinite, outcome.losses)):
                trial.ended = "no time" if time.time() > until else "diverged"
            else:
                trial.outcomes.append(outcome)
        _drop_losers(trials)
        best = winner(trials)
        note(f"fold {number + 1} of {folds}: {best.candidate.name} leads with {best.score:.4g}")
    return winner(trials)


def _job(trial: Trial, number: int, steps: int, until: float) -> Job:
    config = trial.candidate.config
    training = replace(config.training, steps=steps, epochs=None)
    return Job(model=config.reader, training=training, signature=trial.signature, fold=number, until=until)


def _drop_losers(trials: list[Trial]) -> None:
    """End the trials that are worse than the leader by more than chance explains; the first one, if it is by far."""
    running = [trial for trial in trials if not trial.ended]
    if not running:
        return
    leader = min(running, key=lambda trial: trial.loss)
    for trial in running:
        if trial is not leader and advantage(leader, trial) > (WIN if trial is trials[0] else DROP):
            trial.ended = "clearly worse"


def winner(trials: list[Trial]) -> Trial:
    """The first trial, unless another one that saw as many folds is better by more than chance explains."""
    first = trials[0]
    full = max((len(trial.outcomes) for trial in trials), default=0)
    rivals = [trial for trial in trials if not trial.ended and len(trial.outcomes) == full and full]
    if not rivals:
        return first
    best = min(rivals, key=lambda trial: trial.loss)
    if first in rivals and advantage(best, first) <= WIN:
        return first
    return best


def advantage(better: Trial, worse: Trial) -> float:
    """How much lower the losses of one trial are, in standard errors of the paired differences."""
    count = min(len(better.losses), len(worse.losses))
    differences = worse.losses[:count] - better.losses[:count]
    if count < 2:
        return 0.0
    error = float(differences.std(ddof=1)) / math.sqrt(count)
    mean = float(differences.mean())
    return mean / error if error > 0 else math.copysign(math.inf, mean) if mean else 0.0
