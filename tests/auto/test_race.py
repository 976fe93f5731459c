"""Who drops out and who wins, with made-up losses."""

import math
import time

import numpy as np
import pytest

from autapse.auto import recipe
from autapse.auto.candidates import Variant
from autapse.auto.race import Trial, advantage, race, winner
from autapse.auto.trial import Outcome
from autapse.tasks import ArrayTask

TASK = ArrayTask(np.zeros((12, 4, 1)), ["a", "b"] * 6)


class Scripted:
    """A pool whose candidates have given mean losses, with the same noise for all."""

    def __init__(self, means: dict[str, float], noise: float) -> None:
        self.means, self.noise, self.jobs = list(means.values()), noise, []

    def map(self, jobs):
        self.jobs.append(len(jobs))
        outcomes = []
        for job in jobs:
            mean = self.means[job.training.seed]
            rng = np.random.default_rng([job.training.seed, job.fold])
            losses = tuple(float(v) for v in mean + self.noise * rng.normal(size=20))
            outcomes.append(Outcome(losses=losses, scores=losses, steps=5, seconds=0.1))
        return outcomes


def run(means: dict[str, float], noise: float, folds: int = 4) -> tuple[Trial, list[Trial], Scripted]:
    configs = [recipe(TASK, training={"seed": n}) for n in range(len(means))]
    trials = [Trial(Variant(name, c), TASK.signature()) for name, c in zip(means, configs, strict=True)]
    pool = Scripted(means, noise)
    best = race(trials, pool, folds, steps=5, until=time.time() + 60, note=lambda text: None)
    return best, trials, pool


def test_a_clearly_better_candidate_wins_and_losers_drop_out_at_once():
    best, trials, pool = run({"recipe": 1.0, "good": 0.1, "bad": 5.0}, noise=0.01)
    assert best.candidate.name == "good"
    assert [trial.ended for trial in trials] == ["clearly worse", "", "clearly worse"]
    assert pool.jobs == [3]  # one is left, so that the other folds tell nothing


@pytest.mark.parametrize(("mean", "best"), [(0.387, "recipe"), (0.6, "other")])
def test_the_recipe_wins_unless_another_is_better_by_two_standard_errors(mean, best):
    """Sixteen differences of mean ± 1 have a standard error of 0.258."""
    first, other = (Trial(Variant(name, recipe(TASK)), TASK.signature()) for name in ("recipe", "other"))
    for trial, losses in ((first, [2.0] * 16), (other, [2 - mean + (-1) ** n for n in range(16)])):
        trial.outcomes.append(Outcome(losses=tuple(losses), scores=tuple(losses), steps=1, seconds=0.0))
    assert advantage(other, first) == pytest.approx(mean / 0.258, rel=0.01)
    assert winner([first, other]).candidate.name == best


def test_the_advantage_is_that_of_a_paired_test():
    one, other = (Trial(Variant(name, recipe(TASK)), TASK.signature()) for name in ("one", "other"))
    losses = {"one": (0.1, 0.3, 0.2, 0.4), "other": (0.3, 0.4, 0.6, 0.5)}
    for trial in (one, other):
        values = losses[trial.candidate.name]
        trial.outcomes.append(Outcome(losses=values, scores=values, steps=1, seconds=0.0))
    differences = np.subtract(losses["other"], losses["one"])
    assert advantage(one, other) == pytest.approx(differences.mean() / (differences.std(ddof=1) / 2))
    assert advantage(one, one) == 0
    one.outcomes[0] = Outcome(losses=(0.0,) * 4, scores=(0.0,) * 4, steps=1, seconds=0.0)
    other.outcomes[0] = Outcome(losses=(1.0,) * 4, scores=(0.0,) * 4, steps=1, seconds=0.0)
    assert advantage(one, other) == math.inf


def test_without_time_the_recipe_wins():
    trials = [Trial(Variant(name, recipe(TASK)), TASK.signature()) for name in ("recipe", "other")]
    assert race(trials, Scripted({"recipe": 1.0, "other": 0.0}, 0.0), 4, 5, time.time() - 1, print) is trials[0]
