"""What a report says about one run: read from its folder, and measured on its test data."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from autapse import checks, files
from autapse.models import Model, SequenceModel
from autapse.report.cost import Cost, cost_of
from autapse.report.inside import FILE, cut_short, diagnose_run, some_sequences
from autapse.tasks import TASKS
from autapse.training.checkpoint import load_weights, read_run
from autapse.training.config import RunConfig
from autapse.training.feeds import Tensors, in_order
from autapse.training.loading import check_data, find_run
from autapse.training.log import read_metrics
from autapse.training.model import make_model
from autapse.training.progress import RunProgress
from autapse.training.summary import Summary

MOST_VALUES = 20_000  # predictions whose residuals are drawn

Pairs = list[tuple[float, float]]


@dataclass(frozen=True, kw_only=True, eq=False)
class RunFacts:
    """One run in a report."""

    name: str  # how the report calls it
    folder: Path
    config: RunConfig
    progress: RunProgress
    summary: Summary | None  # None if the run is not finished
    metrics: list[dict[str, Any]]  # the lines of metrics.jsonl
    cost: Cost
    command: str  # what trains it again; empty if no command can
    diagnosis: dict[str, Any] | None = None  # the content of diagnosis.json
    choice: dict[str, Any] | None = None  # the content of choice.json, if a search chose the settings
    residuals: Pairs = field(default_factory=list)  # (true, predicted) of the test data, for values to predict
    notes: tuple[str, ...] = ()  # what could not be measured, and why

    @property
    def metric(self) -> str:
        """What the scores are. The task itself may need its data to say it."""
        return self.config.task.metric if self.summary is None else self.summary.metric

    @property
    def trivial(self) -> str:
        """What the trivial predictor does; nothing if only the data could say it."""
        try:
            return self.config.task.baseline_text
        except (checks.InputError, OSError):
            return ""

    def series(self, key: str) -> Pairs:
        """(step, number) of all lines of the log that have a finite number under this key."""
        known: list[tuple[Any, Any]] = [(line.get("step"), line.get(key)) for line in self.metrics]
        return [(float(x), float(y)) for x, y in known if _is_number(x) and _is_number(y)]


def read_facts(
    folder: Path,
    name: str = "",
    *,
    command: Callable[[RunConfig], str] = lambda config: "",
    budget: float | None = 60.0,
    trust: bool = False,
    notify: Callable[[str], None] | None = None,
) -> RunFacts:
    """Read a run for a report.

    Args:
        folder: the folder of the run.
        name: how the report calls it; by default the name of the folder.
        command: a function that says which command repeats a run.
        budget: seconds for the probes; None leaves them out. A diagnosis that is newer than the last checkpoint is
            read instead, unless its own budget cut it short.
        trust: allow importing the module of a cell of your own.
        notify: is called with what is being done.

    Returns:
        The facts. What cannot be measured, because the data are gone or no probe fits, is in `notes`.
    """
    saved = read_run(find_run(folder), trust)
    if not saved.progress.step and not saved.progress.finished:
        raise checks.InputError(f"{folder} is not trained yet. `autapse resume {folder}` trains it.")
    model = make_model(saved.config.task, saved.config.model, "cpu", saved.signature)
    load_weights(model, saved.best, saved.path)
    measured, notes = _measured(model.eval(), saved.config, saved.signature, folder)
    diagnosis, problem = _diagnosis(model, saved.config, folder, budget, notify)
    choice, config = _table(folder / "choice.json"), saved.config
    if choice:  # a search limits the time, but has chosen the steps
        config = replace(config, training=replace(config.training, seconds=None))
    return RunFacts(
        name=name or folder.resolve().name,
        folder=folder,
        config=saved.config,
        progress=saved.progress,
        summary=_summary(folder) if saved.progress.finished else None,
        metrics=_metrics(folder),
        command=command(config) if config.task.name in TASKS else "",  # data in memory have no command
        diagnosis=diagnosis,
        choice=choice,
        notes=(*notes, *problem),
        **measured,
    )


def _measured(model: Model, config: RunConfig, known: Any, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The cost of a model and its residuals; a note if the data cannot be had."""
    try:
        check_data(config.task.signature(), known, folder)
        data = config.task.split("test", config.training.seed)
        if not len(data):
            return {"cost": cost_of(model, None)}, ["There is no test data."]
        tensors = Tensors.of(data, "cpu")
    except (checks.InputError, OSError) as error:
        return {"cost": cost_of(model, None)}, [f"The test data cannot be read: {error}"]
    residuals = _residuals(model, tensors) if config.task.kind in ("regression", "regression per step") else []
    return {"cost": cost_of(model, some_sequences(tensors, 1)), "residuals": residuals}, []


@torch.no_grad()
def _residuals(model: Model, data: Tensors) -> Pairs:
    """(true, predicted) of the first value to predict."""
    pairs: Pairs = []
    for batch in in_order(data, 256):
        output, _ = model.carry(batch.inputs, batch.lengths, None)
        true, predicted = (part[..., 0].flatten().double().tolist() for part in (batch.targets, output))
        pairs += [(a, b) for a, b in zip(true, predicted, strict=True) if math.isfinite(a) and math.isfinite(b)]
        if len(pairs) > MOST_VALUES:
            break
    return pairs[:MOST_VALUES]


def _diagnosis(
    model: Model, config: RunConfig, folder: Path, budget: float | None, notify: Callable[[str], None] | None
) -> tuple[dict[str, Any] | None, list[str]]:
    """The diagnosis of a run, or why there is none: from its file, if that is whole and newer than the checkpoint."""
    path, state = folder / FILE, folder / "state.json"
    if path.is_file() and path.stat().st_mtime_ns >= state.stat().st_mtime_ns:
        known = _table(path)
        if budget is None or not cut_short(known or {}):
            return known, []
    if budget is None:
        return None, []
    if not isinstance(model, SequenceModel):
        return None, [
            f"No probe looked inside: probes are for models that read sequences, not for {type(model).__name__}."
        ]
    try:
        diagnosis = diagnose_run(model, config, folder, budget=budget, notify=notify)
    except (checks.InputError, OSError) as error:
        return None, [f"No probe looked inside: {error}"]
    with suppress(OSError):  # a folder that cannot be written can still be reported on
        files.write_json(path, diagnosis)
    return diagnosis, []


def _summary(folder: Path) -> Summary | None:
    path = folder / "summary.json"
    return Summary.from_json(files.read_json(path, follow=False), path) if path.exists() else None


def _metrics(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    try:
        return [line for line in read_metrics(path) if isinstance(line, dict)] if path.exists() else []
    except ValueError as error:
        raise checks.InputError(f"{path} is damaged: {error}.") from None


def _table(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file with a table; None if there is no such file."""
    if not path.exists():
        return None
    content = files.read_json(path, follow=False)
    if not isinstance(content, dict):
        raise checks.InputError(f"{path} is damaged: it must be a table of keys and values.")
    return content


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
