"""`autapse run FILE --forecast HORIZON`: what it prints before and after the training, and its picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import OmitArgPrefixes

from autapse import checks, files
from autapse.cli.kind import RunArguments, RunKind, T
from autapse.tasks.forecast import Forecasting
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.forecast_settings import FORECAST
from autapse.training.model_config import ModelConfig

if TYPE_CHECKING:
    import numpy as np

    from autapse.models import Forecaster
    from autapse.training import ForecastReport, Summary

OPTION = "--forecast"
NAMES = {"model": "this model", "last season": "last season (trivial)", "last value": "last value (trivial)"}
PANELS = 4  # channels in the picture


def as_forecast(path: str, words: list[str]) -> list[str] | None:
    """The options of the task `forecast` for a file with `--forecast HORIZON`; None without it."""
    for n, word in enumerate(words):
        if word == OPTION:
            return ["--path", path, *words[:n], "--horizon", *words[n + 1 :]]
        if word.startswith(f"{OPTION}="):
            return ["--path", path, *words[:n], f"--horizon={word.removeprefix(OPTION + '=')}", *words[n + 1 :]]
    return None


@dataclass(kw_only=True)
class ForecastArguments(RunArguments[T, ModelConfig]):
    """Train a network that forecasts. The weights with the best validation loss are kept, and scored on the test part.

    The forecasts start as those of ridge regression on the window, and the network learns what is left.
    """

    training: OmitArgPrefixes[TrainingConfig] = field(default_factory=FORECAST.training_config)
    model: OmitArgPrefixes[ModelConfig] = field(default_factory=FORECAST.model_config)


class ForecastKind(RunKind):
    """Forecasts."""

    arguments, defaults = ForecastArguments, FORECAST

    def print_look(self, console: Any, config: RunConfig) -> None:
        assert isinstance(config.task, Forecasting)
        print_look(console, config.task)

    def finish(self, console: Any, folder: Path, config: RunConfig, summary: Summary) -> None:
        assert isinstance(config.task, Forecasting)
        finish(console, folder, config.task, summary)


def print_look(console: Any, task: Forecasting) -> None:
    """Print what is forecast from what, and where the splits are."""
    history, shape = task.history(), task.shape
    count, lengths = len(history.values), history.values.lengths
    steps = f"{lengths.min()}" if lengths.min() == lengths.max() else f"{lengths.min()} to {lengths.max()}"
    console.print(f"{count} series of {steps} steps" if count > 1 else f"one series of {steps} steps")
    console.print(f"forecast: {_listed(shape.targets)}, {shape.horizon} steps ahead ({task.method})")
    if shape.others:
        console.print(f"history only: {_listed(shape.others)}")
    if shape.known:
        console.print(f"known ahead: {_listed(shape.known)}")
    why = "given" if task.season else "found in the training part" if shape.season > 1 else "none found"
    console.print(f"season: {shape.season} ({why}); window: {shape.window}{'' if task.window else ' (chosen)'}")
    windows = ", ".join(f"{len(task.part(split).windows)} {split}" for split in ("train", "validation", "test"))
    console.print(f"windows, in the order of time: {windows}")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def finish(console: Any, folder: Path, task: Forecasting, summary: Summary) -> None:
    """Score the forecasts of a run, print them beside simple predictors, and draw the last one."""
    from autapse.training import forecast_report, load

    if summary.best_step == 0 and summary.stopped_by != "closed form":
        console.print("The network found nothing to add to the straight line through the window, which is the model.")
    model: Any = load(folder, trust=True)  # its cell was imported for the training
    if not len(task.part("test").windows):
        console.print("There is no test part, so nothing is scored.")
        return
    report = forecast_report(model, task)
    files.write_json(folder / "forecast.json", report.to_json())
    console.print(error_table(report))
    simple = "last season" if report.season > 1 else "last value"
    console.print(f"MSE, MAE: mean squared and absolute error; MASE: scaled by the error of the {simple} in training")
    if report.coverage:
        shares = ", ".join(f"{float(level):.0%} interval: {share:.1%}" for level, share in report.coverage.items())
        console.print(f"values within the {shares}")
    console.print(draw(folder, model, task))


def error_table(report: ForecastReport) -> Any:
    """The errors of all predictors as a table."""
    from rich import box
    from rich.table import Table

    table = Table(title=f"{report.split} part, {report.windows} forecasts", title_justify="left", box=box.SIMPLE_HEAD)
    for n, heading in enumerate(("", "MSE", "MAE", "MASE")):
        table.add_column(heading, justify="right" if n else "left", no_wrap=True)
    for name, errors in report.errors.items():
        table.add_row(NAMES.get(name, name), *(f"{errors[key]:.4g}" for key in ("mse", "mae", "mase")))
    return table


def draw(folder: Path, model: Forecaster, task: Forecasting) -> str:
    """Draw the last forecast of the test part. Returns a line with the path, or with the way to install matplotlib."""
    from autapse.diagnostics.plots import ForecastPanel, plot_forecasts
    from autapse.training.forecast_scores import window_forecasts

    part, shape = task.part("test"), task.shape
    levels = shape.levels[:1]
    made = window_forecasts(model, part.windows[len(part.windows) - 1][None], levels)
    series, origin = int(part.series[-1]), int(part.origins[-1])
    history = task.columns[series]
    first = max(0, origin + 1 - max(shape.window, 3 * shape.horizon))
    panels = []
    for k, name in enumerate(shape.targets[:PANELS]):
        limits: list[np.ndarray] = [part[0, :, k, 0] for part in made[1:]] if levels else []
        panels.append(
            ForecastPanel(
                title=name if len(task.plans) == 1 else f"{task.history().names[series]}: {name}",
                first=first,
                origin=origin,
                values=history[first : origin + 1 + shape.horizon, k].tolist(),
                forecast=made.values[0, :, k].tolist(),
                limits=tuple(limit.tolist() for limit in limits),
                interval=f"{levels[0]:.0%} interval" if levels else "",
            )
        )
    path = folder / "forecast.png"
    try:
        plot_forecasts(path, panels)
    except checks.InputError as error:  # matplotlib is optional; everything else is already written
        return str(error)
    return f"figure: {path}"
