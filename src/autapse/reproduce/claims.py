"""The claims of a paper, and whether they hold in our results: in `paper.toml`, or in the `table.toml` of a table.

    name = "RIN"

    [[claim]]
    text = "RIN beats the LSTM of the same size on sequential MNIST."
    compare = ["table1/sequential-mnist/rin-1-100 beats table1/sequential-mnist/lstm-1-100"]

Every line of `compare` is `<recipe> <relation> <recipe or number>`, with recipes below the paper's folder:

    A beats B      A is better, by more than `tolerance`
    A reaches B    A is better, or worse by `tolerance` at most
    A solves       A solved its task, as the task defines it, with every seed
    A fails        A did not

`mean:table3/rin/*` is the mean of all these recipes. Any other name with a star is the recipe that validated best.
`measure` says what is compared: the score, the time to the best model, the training loss at the end, or one of a
result's other scores, such as free_running_error (less is better).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import methodcaller
from pathlib import Path

from autapse import checks
from autapse.reproduce.recipe import Recipe
from autapse.reproduce.result import OTHERS, Result, Results
from autapse.reproduce.score import Score, chosen, duration, how_often, score_of

RELATIONS = {"beats": 2, "reaches": 2, "solves": 1, "fails": 1}  # how many sides each has
OUTCOMES = ("held", "held so far", "did not hold", "not run yet")
MORE_IS_BETTER = ("accuracy", "solved")
FORMATS = {"accuracy": ".2f", "error": ".4f", "perplexity": ".1f", "loss": ".3g"}
MEASURES: dict[str, Callable[[Result], float | None]] = {
    "score": lambda one: one.ours,
    "time": lambda one: one.quiet_seconds,
    "loss": lambda one: one.curve.loss[-1] if one.curve else None,
    **{name: methodcaller("number", name) for name in OTHERS},
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    text: str
    compare: tuple[str, ...]
    measure: str = "score"
    tolerance: float = 0.0


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    label: tuple[str, str]
    """Its column and its row in the paper's table."""
    unit: str
    score: Score | None
    """None if it was not run."""

    def shown(self) -> str:
        if self.score is None:
            return "not run"
        if self.unit == "time":
            return duration(self.score.mean)
        if self.unit == "solved":
            return _solved_runs(self.score)
        return self.score.shown(FORMATS.get(self.unit, "g"))


@dataclass(frozen=True)
class Comparison:
    holds: bool | None
    """None if it was not run."""
    words: str


@dataclass(frozen=True)
class Judgement:
    """A claim with our comparisons."""

    claim: Claim
    comparisons: tuple[Comparison, ...]

    @property
    def outcome(self) -> str:
        """One of OUTCOMES."""
        run = [one.holds for one in self.comparisons if one.holds is not None]
        if not run:
            return "not run yet"
        if not all(run):
            return "did not hold"
        return "held" if len(run) == len(self.comparisons) else "held so far"

    @property
    def verdict(self) -> str:
        """The outcome, with the number of comparisons if it is not all."""
        run = [one.holds for one in self.comparisons if one.holds is not None]
        if self.outcome == "held so far":
            return f"held so far ({len(run)} of {len(self.comparisons)} compared)"
        if self.outcome == "did not hold":
            return "**did not hold**" + (f" ({sum(run)} of {len(run)} held)" if any(run) else "")
        return self.outcome

    @property
    def numbers(self) -> str:
        """The scores that decide; comparisons that were not run are left out."""
        return "<br>".join(dict.fromkeys(one.words for one in self.comparisons if one.holds is not None)) or "–"


@dataclass(frozen=True)
class Evidence:
    """The recipes and results that the claims of a paper are judged by."""

    paper: str
    recipes: dict[str, Recipe]
    results: Results
    source: Path
    """The file with the claims, for error messages."""

    def judge(self, claim: Claim) -> Judgement:
        checks.one_of(f"{self.source}: measure", claim.measure, MEASURES)
        return Judgement(claim, tuple(self._compare(line, claim) for line in claim.compare))

    def _compare(self, line: str, claim: Claim) -> Comparison:
        words = line.split()
        relation = checks.one_of(f"{self.source}: relation", "".join(words[1:2]), RELATIONS)
        names = [*words[:1], *words[2:]]
        if len(names) != RELATIONS[relation]:
            checks.fail(f"{self.source}: compare", f"have {RELATIONS[relation]} sides with {relation!r}", line)
        sides = [self._side(name, claim.measure) for name in names]
        if len(sides) == 1:
            return self._solved(names[0], relation, sides[0])
        return Comparison(_holds(relation, sides, claim.tolerance), _words(sides))

    def _solved(self, name: str, relation: str, side: Side) -> Comparison:
        """Whether a task was solved with every seed."""
        recipe = self.recipes[f"{self.paper}/{name}"]
        results = self.results.get(recipe.id, [])
        if not results:
            return Comparison(None, "")
        limit = recipe.config().task.solved or 0.0
        solved = all(one.ours if one.unit == "solved" else (one.test or 0.0) < limit for one in results)
        column, row = side.label
        shown = side.shown() if side.unit == "solved" else f"{'solved' if solved else 'not solved'} ({side.shown()})"
        return Comparison(solved == (relation == "solves"), f"{column}: {row} {shown}")

    def _side(self, name: str, measure: str) -> Side:
        if re.fullmatch(r"\d+(\.\d+)?", name):
            return Side(("", "published"), "accuracy", Score(float(name), None, 1))
        kind, colon, pattern = name.rpartition(":")
        members = [recipe for other, recipe in self.recipes.items() if fnmatchcase(other, f"{self.paper}/{pattern}")]
        if not members or (colon and kind != "mean"):
            checks.fail(f"{self.source}: compare", "name recipes below the paper's folder", name)
        results = {recipe.id: self.results.get(recipe.id, []) for recipe in members}
        value = MEASURES[measure]
        if kind == "mean":
            unit, score = _mean(list(results.values()), value)
            return Side((members[0].about["column"], "mean"), unit, score)
        best = chosen(results) or members[0].id
        unit = measure if measure != "score" else results[best][0].unit if results[best] else ""
        about = self.recipes[best].about
        return Side((about["column"], about["row"]), unit, score_of(results[best], value))


def _solved_runs(score: Score) -> str:
    """In how many runs a task was solved.

    >>> _solved_runs(Score(0.6, 0.55, 5)), _solved_runs(Score(1.0, None, 1))
    ('solved in 3 of 5 runs', 'solved')
    """
    if score.seeds == 1:
        return "solved" if score.mean else "not solved"
    return f"solved {how_often(round(score.mean * score.seeds), score.seeds)}"


def _mean(every: list[list[Result]], value: Callable[[Result], float | None]) -> tuple[str, Score | None]:
    """The mean over recipes, all of which must have been run."""
    scores = [score_of(results, value) for results in every]
    known = [score.mean for score in scores if score]
    if len(known) < len(every):
        return "", None
    return every[0][0].unit, Score(sum(known) / len(known), None, 1)


def _holds(relation: str, sides: list[Side], tolerance: float) -> bool | None:
    scores = [side.score for side in sides]
    if None in scores:
        return None
    left, right = (score.mean for score in scores if score)
    ahead = (left - right) * (1 if sides[0].unit in MORE_IS_BETTER else -1)
    return ahead > tolerance if relation == "beats" else ahead >= -tolerance


def _words(sides: list[Side]) -> str:
    """The sides with their numbers; what their names share comes first: "b = 0.5: INN 0.1354 against b-LSTM 0.1365"."""
    columns, rows = zip(*(side.label for side in sides), strict=True)
    if len(set(columns)) == 1:
        shared, names = f"{columns[0]}: ", rows
    elif len(set(rows)) == 1:
        shared, names = f"{rows[0]}: ", columns
    else:
        shared, names = "", tuple(f"{column} {row}".strip() for column, row in zip(columns, rows, strict=True))
    return shared + " against ".join(f"{name} {side.shown()}" for name, side in zip(names, sides, strict=True))
