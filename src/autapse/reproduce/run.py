"""Train a recipe on this machine, and make its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autapse import checks, files
from autapse.reproduce.curve import curve_of
from autapse.reproduce.recipe import Difference, Recipe
from autapse.reproduce.result import OTHERS, Result
from autapse.results.machine import Origin, software
from autapse.tasks import Stored
from autapse.training import checkpoint
from autapse.training.config import RunConfig
from autapse.training.log import read_metrics
from autapse.training.rescue import Diverged
from autapse.training.summary import Summary
from autapse.training.trainer import Trainer

SHARE = 0.45  # of the budget, for the first run: the refit has at most as many epochs, of more data
FIXED = {"training.seed": "--seed", "training.seconds": "--budget"}


@dataclass(frozen=True)
class Plan:
    """What to train, and how it differs from the paper's."""

    recipe: Recipe
    config: RunConfig
    budget: float | None
    """Seconds for all training; None trains to the end of the paper's settings."""

    @classmethod
    def of(cls, recipe: Recipe, budget: float | None, seed: int, overrides: Mapping[str, Any]) -> Plan:
        for setting in FIXED.keys() & overrides.keys():
            checks.fail("set", f"leave {setting} to {FIXED[setting]}", overrides[setting])
        config = recipe.config(budget is not None, overrides)
        refit = recipe.refit and isinstance(config.task, Stored)
        if refit and (config.training.schedule == "plateau" or config.training.early_stop):
            remedy = "The refit on all training data has nothing to validate on."
            checks.fail(
                "set",
                f"leave plateau and early_stop to recipes without a refit; {recipe.id} has one",
                overrides,
                remedy,
            )
        seconds = None if budget is None else budget * (SHARE if refit else 1.0)
        return cls(recipe, replace(config, training=replace(config.training, seed=seed, seconds=seconds)), budget)

    @property
    def refit(self) -> bool:
        return self.recipe.refit and isinstance(self.config.task, Stored)

    def refit_config(self, epochs: float) -> RunConfig:
        """The same on all training data, for the epochs that validation chose; a cosine schedule runs to its end."""
        training, task = self.config.training, self.config.task
        assert isinstance(task, Stored)
        epochs = training.epochs if training.schedule == "cosine" and training.epochs is not None else epochs
        seconds = None if self.budget is None else self.budget * (1 - SHARE)
        # A period counts steps, and an epoch of all the data has more steps.
        period = None if training.period is None else round(training.period / (1 - task.validation))
        return replace(
            self.config,
            task=replace(task, validation=0.0),
            training=replace(training, epochs=epochs, seconds=seconds, period=period),
        )

    def differences(self) -> tuple[Difference, ...]:
        """The settings that are not the paper's, except the budget, which a result has in another field."""
        return tuple(one for one in self.recipe.differences(self.config) if one.setting != "training.seconds")


def reproduce(plan: Plan, folder: Path, command: str, show: Callable[[RunConfig], Any]) -> Result:
    """Train a plan in `folder`, or continue one that was interrupted, and return its result.

    `show` makes a context manager, which returns the `Show` of one run.
    """
    before = Origin.here()  # before a long run, during which it may change
    first = _train(plan.config, folder / "fit", show)
    second = None
    if plan.refit:
        second = _train(plan.refit_config(_epochs(first)), folder / "refit", show)
    metrics = folder / "fit" / "metrics.jsonl"
    return _result(plan, first, second, command, before, read_metrics(metrics) if metrics.exists() else [])


def _train(config: RunConfig, folder: Path, show: Callable[[RunConfig], Any]) -> Summary:
    """The summary of a run. A run that exists already is resumed, if it has these settings.

    A finished run is scored again: its checkpoint has a checksum, its summary.json has none.
    """
    if (folder / "config.json").exists():
        existing = RunConfig.from_json(files.read_json(folder / "config.json", follow=False), folder / "config.json")
        if existing != config:
            remedy = "Remove that folder, or choose another with --runs."
            raise checks.InputError(f"{folder} has a run with other settings. {remedy}")
    with show(config) as screen:
        if (folder / "state.json").exists():
            trainer = Trainer.resume(folder, screen)
        else:
            if folder.exists():
                checkpoint.discard(folder)
            trainer = Trainer(config, screen)
            trainer.start(files.new_folder(folder))
        try:
            summary = trainer.train()
        except Diverged as error:  # the best weights before that give a result too
            screen.note(str(error))
            trainer.progress.stopped_by = "diverged"
            summary = trainer.summarise()
        assert summary is not None, "a recipe is trained by one process"
        return summary


def _epochs(summary: Summary) -> float:
    """The epochs after which validation was best."""
    per_epoch = _steps_per_epoch(summary)
    return max(float(summary.best_step / per_epoch), 1 / per_epoch)


def _steps_per_epoch(summary: Summary) -> float:
    return float(summary.steps / max(summary.epochs, 1e-4))  # epochs are rounded to 1e-4, so a few steps may give 0


def _result(
    plan: Plan,
    first: Summary,
    second: Summary | None,
    command: str,
    before: Origin,
    records: list[dict[str, Any]],
) -> Result:
    recipe, last = plan.recipe, second or first
    unit, ours = in_papers_unit(recipe, last.metric, last.test)
    paper = recipe.paper.get(unit)
    papers = _papers_epochs(plan, last)
    assert last.baseline is not None, "recipes have test data"
    return Result(
        recipe=recipe.id,
        command=command,
        commit=before.commit,
        unit=unit,
        ours=ours,
        paper=paper,
        difference=None if paper is None or ours is None or unit == "solved" else round(ours - paper, 6),
        held_out=None if second is None else in_papers_unit(recipe, first.metric, first.test)[1],
        best_test=_in_unit(recipe, unit, last.best_test),
        baseline=last.baseline,
        floor=last.floor,
        test=last.test,
        metric=last.metric,
        scores={name: round(last[name], 6) for name in OTHERS if last[name] is not None},
        validation=first.validation,
        best_step=first.best_step,
        solved_step=last.solved_step,
        parameters=last.parameters,
        steps=last.steps,
        epochs=last.epochs,
        paper_epochs=papers,
        seconds=round(sum(run.seconds for run in (first, second) if run), 1),
        best_seconds=_best_seconds(first, records) if second is None else round(second.seconds, 1),
        budget=plan.budget,
        ended=_ended(first, last, papers),
        rescues=last.rescues,
        unsolved=last.unsolved,
        seed=last.seed,
        differences=plan.differences(),
        inferred=recipe.inferred,
        settings={name: value for name, value in plan.config.to_json().items() if name != "autapse"},
        hardware=before.hardware,
        software=software(),
        curve=curve_of(records, _steps_per_epoch(first)),
    )


def _best_seconds(summary: Summary, records: list[dict[str, Any]]) -> float | None:
    """When the best weights were validated; None if no validation is recorded."""
    times = {record["step"]: record["seconds"] for record in records if "validation" in record}
    return round(times[summary.best_step], 1) if summary.best_step in times else None


def _papers_epochs(plan: Plan, summary: Summary) -> float:
    """The paper's training, in epochs of our data."""
    papers, ours = plan.recipe.config().training, plan.config.training
    if papers.epochs is not None:
        return papers.epochs
    per_epoch = _steps_per_epoch(summary) * ours.batch_size / papers.batch_size  # of the paper's steps
    return round(papers.steps / per_epoch, 4) if per_epoch else 0.0  # a head that is solved takes no steps


def _ended(first: Summary, last: Summary, papers: float) -> str:
    """How a run ended: diverged, out of time, or at the end of the paper's or of a shorter training."""
    for reason, text in (("diverged", "diverged"), ("time", "out of time")):
        if reason in (first.stopped_by, last.stopped_by):
            return text
    shorter = first.stopped_by == "steps" and first.epochs < 0.99 * papers
    return "to the end of a shorter training" if shorter else "to the end"


def in_papers_unit(recipe: Recipe, metric: str, score: float | None) -> tuple[str, Any]:
    """The unit that the paper reports (accuracy in percent, error, perplexity or solved), and a score in that unit."""
    known = [unit for unit in ("accuracy", "error", "perplexity", "solved") if unit in recipe.paper]
    by_metric = {"error rate": "accuracy", "perplexity": "perplexity"}
    unit = known[0] if known else recipe.about.get("unit", by_metric.get(metric, "error"))
    return unit, _in_unit(recipe, unit, score)


def _in_unit(recipe: Recipe, unit: str, score: float | None) -> Any:
    if score is None:
        return None
    if unit == "accuracy":
        return round(100 * (1 - score), 4)
    if unit == "solved":
        return score < (recipe.config().task.solved or 0.0)
    return round(score, 6)
