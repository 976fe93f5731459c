"""The scores of several seeds as one: mean, deviation, and how they are written."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autapse.reproduce.result import Result

NOT_RUN = "–"


@dataclass(frozen=True)
class Score:
    """A number measured with one or several seeds."""

    mean: float
    deviation: float | None
    """Sample standard deviation; None for one seed."""
    seeds: int

    def shown(self, form: str) -> str:
        """Mean ± deviation (seeds).

        >>> Score(94.5, 0.25, 3).shown(".2f"), Score(94.5, None, 1).shown(".1f")
        ('94.50 ± 0.25 (3)', '94.5')
        """
        mean = format(self.mean, form)
        return mean if self.deviation is None else f"{mean} ± {format(self.deviation, form)} ({self.seeds})"


def score_of(results: Iterable[Result], value: Callable[[Result], float | None] = lambda one: one.ours) -> Score | None:
    """The results of one recipe as one number; None if no result has it."""
    known = [float(number) for number in map(value, results) if number is not None and math.isfinite(number)]
    if not known:
        return None
    deviation = statistics.stdev(known) if len(known) > 1 else None
    return Score(statistics.fmean(known), deviation, len(known))


def chosen(candidates: dict[str, list[Result]]) -> str | None:
    """The candidate with the best mean validation score (lower is better); None if none was run."""

    def validation(name: str) -> float:
        score = score_of(candidates[name], lambda one: one.validation)
        return math.inf if score is None else score.mean

    return min((name for name, results in candidates.items() if results), key=validation, default=None)


def solved(results: list[Result]) -> str:
    """Whether a task was solved, and after how many steps: "yes, 11,500 steps", "in 2 of 3 runs, …", "no"."""
    if not results:
        return NOT_RUN
    steps = [float(_steps_to_solve(one)) for one in results if one.ours]
    of_one = "yes" if steps else "no"
    often = of_one if len(results) == 1 else how_often(len(steps), len(results))
    return f"{often}, {statistics.fmean(steps):,.0f} steps" if steps else often


def how_often(times: int, runs: int) -> str:
    """In 2 of 3 runs.

    >>> how_often(2, 3)
    'in 2 of 3 runs'
    """
    return f"in {times} of {runs} runs"


def _steps_to_solve(result: Result) -> int:
    """The step of the first validation below the task's limit; the best step if only the test score is below it."""
    return result.best_step if result.solved_step is None else result.solved_step


def duration(seconds: float) -> str:
    """12 s, 9.5 min, 1.2 h.

    >>> duration(30), duration(570), duration(7200)
    ('30 s', '9.5 min', '2 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
