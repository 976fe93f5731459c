"""Result files: the result of one trained recipe, with everything that is needed to judge it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autapse import files
from autapse.records import Record
from autapse.reproduce.curve import Curve
from autapse.reproduce.recipe import Difference

OTHERS = ("symbol_error_rate", "wrong_sequences", "nats_per_sequence", "free_running_error", "length_distance")
SLACK = 0.5  # of the load average above the number of cores, until which a machine counts as quiet


@dataclass(frozen=True, kw_only=True)
class Result(Record):
    """One recipe, trained once. Scores are in the paper's unit, except where a field says otherwise."""

    recipe: str
    command: str
    """The command that trains it again."""
    commit: str | None
    unit: str
    """accuracy (percent), error, perplexity or solved."""
    ours: bool | float | None
    """Test score of the weights that validated best, or of the refit; None if it is not finite."""
    paper: bool | float | None
    difference: float | None
    held_out: bool | float | None
    """Test score before the refit on all training data; None without a refit."""
    best_test: bool | float | None = None
    """Best test score of any epoch, which is how some papers select; None if it was not measured."""
    baseline: float
    floor: float | None
    """Best possible test score, in the task's metric; None if it is not known."""
    test: float | None
    """Test score in the task's metric, as `validation` is."""
    metric: str
    scores: dict[str, float] = field(default_factory=dict)
    """Other test scores of the task, as the summary of a run names them: free_running_error, length_distance, …"""
    validation: float | None
    best_step: int
    solved_step: int | None
    parameters: int
    steps: int
    epochs: float
    paper_epochs: float | None
    seconds: float
    """Training time, the refit included."""
    best_seconds: float | None = None
    """Training time until the model of `ours`: until the best validation, or of the refit alone."""
    budget: float | None
    ended: str
    rescues: int
    unsolved: int
    seed: int
    differences: tuple[Difference, ...]
    inferred: dict[str, str]
    settings: dict[str, dict[str, Any]]
    hardware: dict[str, Any]
    software: dict[str, Any]
    curve: Curve | None = None
    """Learning curve of the run that chose the weights; None in results made before curves were kept."""

    def number(self, name: str) -> float | None:
        """The number of that name: a field, or one of the other scores; None if there is none."""
        return vars(self).get(name, self.scores.get(name))

    @property
    def quiet_seconds(self) -> float | None:
        """`best_seconds`, if other programs did not slow the training down. Such times can be compared."""
        busy = self.hardware.get("load", 0.0) > self.hardware.get("cores", 1) + SLACK
        return None if busy else self.best_seconds


Results = dict[str, list[Result]]  # by recipe


def read_result(path: Path) -> Result:
    """The result in a file; a file that is not a result is an error of one line."""
    return Result.from_json(files.read_json(path), path)


def write_result(path: Path, result: Result) -> None:
    files.write_json(path, result.to_json())


def result_path(root: Path, recipe: str, seed: int) -> Path:
    """The file of a result: reproductions/rin/results/table1/sequential-mnist/rin-1-100.json."""
    paper, _, rest = recipe.partition("/")
    return root / paper / "results" / f"{rest}{f'-seed{seed}' if seed else ''}.json"


def read_results(*roots: Path) -> Results:
    """All results in some folders by recipe, sorted by seed. For the same recipe and seed, the last folder counts."""
    newest: dict[tuple[str, int], Result] = {}
    for root in roots:
        for path in sorted(root.glob("*/results/*/**/*.json")):
            result = read_result(path)
            newest[result.recipe, result.seed] = result
    by_recipe: Results = {}
    for (recipe, _), result in sorted(newest.items()):
        by_recipe.setdefault(recipe, []).append(result)
    return by_recipe
