"""Forecasting: the next steps of one or many series, from their own history and from channels whose future is known."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from autapse import checks
from autapse.data.formats.sequences import SINCE, FileLayout, Times
from autapse.docstrings import inherited
from autapse.tasks.base import SPLITS, Data, ForecastShape, Intervals, Kind, Metric, Signature, Split, Task
from autapse.tasks.forecast_baselines import StraightLine, naive, scaled_error_unit, seasonal_naive
from autapse.tasks.history import Histories, named_columns, read_history
from autapse.tasks.season import find_season
from autapse.tasks.stored import standardisation
from autapse.tasks.windows import MOST, TimeSplit, Windows, thinned

Method = Literal["one-shot", "recursive"]
SMALLEST = 1e-4  # of a typical error, relative to the unit of MASE: rounding errors are smaller
LEAST_WINDOW = 24
PER_WEIGHT = 5


class Part(NamedTuple):
    """The windows of a split."""

    windows: Windows
    targets: np.ndarray  # [N, H, K]
    series: np.ndarray  # [N] the number of the series of each window
    origins: np.ndarray  # [N] the last step of its history


@dataclass(frozen=True, kw_only=True)
class Forecasting(Task):
    """x_t are the channels of a series at step t of a window; y are the values of the next `horizon` steps.

    Each series is split in time: first training, then validation, then test. Every number that the model gets from the
    data comes from the training part.

    Args:
        horizon: Steps to forecast.
        window: Steps of history that a forecast is made from; by default from the season, the horizon and the length.
        target_column: The columns to forecast; by default all that are not known in advance.
        known: Columns whose future is known when a forecast is made, such as holidays or the hour of the day.
        season: Steps after which a series repeats, 1 for none; by default found from the training part.
        method: Forecast all steps at once (one-shot), or one step at a time, where each step reads the forecast of the
            step before (recursive).
        intervals: Prediction intervals from learned quantiles, from a Gaussian, or none.
        levels: The share of values that each interval should contain.
        validation: Share of each series for validation, of the steps before the test part; 0 for none.
        test_share: Share of each series at its end for the test; 0 for none.
    """

    horizon: int
    window: int | None = None
    target_column: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    season: int | None = None
    method: Method = "one-shot"
    intervals: Intervals = "quantile"
    levels: tuple[float, ...] = (0.8, 0.95)
    validation: float = 0.2
    test_share: float = 0.2

    kind: ClassVar[Kind] = "forecasting"
    metric: ClassVar[Metric] = "mean squared error"
    baseline_text: ClassVar[str] = "the last season, or the last value"

    def __init_subclass__(cls, **keywords: Any) -> None:
        """The help of a task also describes the options that all forecasting tasks have."""
        super().__init_subclass__(**keywords)
        cls.__doc__ = inherited(cls)

    def __post_init__(self) -> None:
        checks.integer("horizon", self.horizon, minimum=1)
        for name in ("window", "season"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), minimum=1)
        checks.one_of("method", self.method, get_args(Method))
        checks.one_of("intervals", self.intervals, get_args(Intervals))
        for name in ("validation", "test_share"):
            checks.number(name, getattr(self, name), low=0.0, high=0.9)
        for name in ("target_column", "known"):
            object.__setattr__(self, name, named_columns(name, getattr(self, name)))
        levels = tuple(sorted({checks.number("levels", level, above=0.0) for level in self.levels}))
        if any(level >= 1 for level in levels) or (not levels and self.intervals != "none"):
            checks.fail("levels", "be shares above 0 and below 1", self.levels, "Use intervals=none for no intervals.")
        object.__setattr__(self, "levels", levels)
        both = set(self.known) & set(self.target_column)
        if both:
            checks.fail("known", "not have a column to forecast", min(both))

    @abstractmethod
    def history(self) -> Histories:
        """All series with all their columns."""

    # What is read off the data ----------------------------------------------------------------------------------------

    @cached_property
    def shape(self) -> ForecastShape:
        """The columns, the window and the season."""
        history = self.history()
        known = self.known
        for name in known:
            history.place(name, "known")
        rest = tuple(name for name in history.channels if name not in known)
        targets = self.target_column or tuple(name for name in rest if name != SINCE)
        for name in targets:
            history.place(name, "target_column")
        if not targets:
            checks.fail("known", "leave a column to forecast", self.known)
        others = tuple(name for name in rest if name not in targets)
        if others and self.method == "recursive":
            rule = f"be one-shot, since {others[0]!r} is neither forecast nor known: later steps would need its future"
            checks.fail("method", rule, self.method)
        season = self.season or self._found_season(targets)
        window = self.window or self._default_window(season)
        if self.season is not None and window < season:
            checks.fail("window", f"be at least the season, {season}", window)
        if known and window < self.horizon:
            checks.fail("window", f"be at least the horizon, {self.horizon}, with known columns", window)
        return ForecastShape(
            horizon=self.horizon,
            window=window,
            targets=targets,
            others=others,
            known=known,
            recursive=self.method == "recursive",
            intervals=self.intervals,
            levels=self.levels if self.intervals != "none" else (),
            season=season,
        )

    def _train_steps(self) -> np.ndarray:  # [series]
        """Steps of the training part of each series, which do not depend on the window."""
        return np.array([self._plan(int(steps), 1).ends["train"] for steps in self.history().values.lengths])

    def _plan(self, steps: int, window: int) -> TimeSplit:
        return TimeSplit(steps, window, self.horizon, self.validation, self.test_share)

    def _found_season(self, targets: tuple[str, ...]) -> int:
        history, ends = self.history(), self._train_steps()
        longest = self.window or max(2, int(np.max(ends)) // 3)
        places = [history.channels.index(name) for name in targets]
        parts = [history.values[n][: max(end, 0), place] for n, end in enumerate(ends) for place in places]
        return find_season(parts, longest)

    def _default_window(self, season: int) -> int:
        """Two seasons or two horizons, if the training parts have room for them."""
        steps, columns = self._train_steps(), len(self.history().channels)
        shortest = int(steps.min())
        wanted = max(LEAST_WINDOW, 2 * season, 2 * self.horizon)
        # Least squares has one weight per value of the window, and needs some windows per weight.
        room = max(min((shortest - self.horizon) // 2, int(steps.sum()) // (PER_WEIGHT * columns)), 1)
        least = max(season, self.horizon if self.known else 1)
        return max(min(wanted, room), min(least, max(shortest - self.horizon, 1)))

    @cached_property
    def plans(self) -> list[TimeSplit]:
        """Where the windows of each series are."""
        history = self.history()
        plans = [self._plan(int(steps), self.shape.window) for steps in history.values.lengths]
        for plan, name in zip(plans, history.names, strict=True):
            plan.check(f"series {name!r}" if len(plans) > 1 else "the series")
        return plans

    @cached_property
    def columns(self) -> list[np.ndarray]:
        """The columns of the model's input for each series, [steps, input_size]; NaN where the future is missing."""
        history, shape = self.history(), self.shape
        order = [history.channels.index(name) for name in shape.columns]
        count = len(shape.known)
        made = []
        for n in range(len(history.values)):
            values = history.values[n][:, order]
            ahead = np.full((len(values), count), np.nan, dtype=np.float32)
            ahead[: -self.horizon] = values[self.horizon :, values.shape[1] - count :]
            made.append(np.concatenate([values, ahead], axis=1))
        return made

    def part(self, split: Split) -> Part:
        """The windows of a split, with what followed."""
        checks.one_of("split", split, SPLITS)
        return self._parts[split]

    @cached_property
    def _parts(self) -> dict[Split, Part]:
        return {split: self._part(split) for split in SPLITS}

    def _part(self, split: Split) -> Part:
        window, horizon, count = self.shape.window, self.horizon, len(self.shape.targets)
        origins = [plan.origins(split) for plan in self.plans]
        series = np.repeat(np.arange(len(origins)), [len(one) for one in origins])
        chosen = thinned(np.arange(len(series)), MOST[split])
        flat, series = np.concatenate(origins)[chosen], series[chosen]
        values, targets, first, offset = [], [], [], 0
        for n, rows in enumerate(self.columns):
            own = flat[series == n]
            if not len(own):
                continue
            begin, end = own[0] - window + 1, own[-1] + 1
            values.append(rows[begin:end])  # nothing after the last origin
            targets.append(rows[own[:, None] + np.arange(1, horizon + 1), :count])
            first.append(own - own[0] + offset)
            offset += end - begin
        empty = np.zeros((0, self.shape.input_size), dtype=np.float32)
        windows = Windows(
            np.concatenate(values) if values else empty,
            np.full(len(flat), window, dtype=np.int64),
            np.concatenate(first).astype(np.int64) if first else np.zeros(0, dtype=np.int64),
        )
        wanted = np.concatenate(targets) if targets else np.zeros((0, horizon, count), dtype=np.float32)
        return Part(windows, wanted, series, flat)

    # Task -------------------------------------------------------------------------------------------------------------

    def signature(self) -> Signature:
        rows = [rows[: plan.ends["train"]] for rows, plan in zip(self.columns, self.plans, strict=True)]
        used = np.concatenate(rows)
        mean, scale = standardisation(used[:, : len(self.shape.columns)])
        last = len(self.shape.known)
        return Signature(
            kind=self.kind,
            input_size=self.shape.input_size,
            output_size=len(self.shape.targets),
            channels=self.history().channels,
            mean=mean + mean[len(mean) - last :] if last else mean,
            scale=scale + scale[len(scale) - last :] if last else scale,
            length=self.shape.window,
            forecast=self.shape,
        )

    def split(self, split: Split, seed: int) -> Data:
        checks.seed("seed", seed)
        part = self.part(split)
        units = self.error_units[part.series].astype(np.float32)[:, None]  # [N, 1, K]
        return Data(part.windows, np.concatenate([part.targets, units], axis=1))

    @cached_property
    def error_units(self) -> np.ndarray:  # [series, K]
        """The size of a typical error of each series: that of the best simple predictor on its training windows.

        Least squares alone would not do: its line follows the large series, and its errors on a small series can be
        larger than the series.
        """
        part = self.part("train")
        counts = np.bincount(part.series, minlength=len(self.plans))[:, None]
        each = [np.square(values - part.targets).mean(axis=1) for values in self.baselines("train").values()]  # [N, K]
        typical = np.sqrt(np.min([_sums(part.series, error, len(counts)) / counts for error in each], axis=0))
        return np.maximum(typical, SMALLEST * self.scaled_error_units)

    @cached_property
    def scaled_error_units(self) -> np.ndarray:  # [series, K]
        """The denominator of MASE for each series."""
        count, season = len(self.shape.targets), self.shape.season
        pairs = zip(self.columns, self.plans, strict=True)
        return np.stack([scaled_error_unit(rows[: plan.ends["train"], :count], season) for rows, plan in pairs])

    @cached_property
    def straight_line(self) -> StraightLine:
        """Least squares on the training windows."""
        part = self.part("train")
        return StraightLine(part.windows.array(), part.targets)

    def baselines(self, split: Split) -> dict[str, np.ndarray]:
        """The forecasts of simple predictors for the windows of a split, [N, H, K] each, by name."""
        windows, shape = self.part(split).windows.array(), self.shape
        forecasts = {"last value": naive(windows, shape.horizon, len(shape.targets))}
        if shape.season > 1:
            forecasts["last season"] = seasonal_naive(windows, shape.horizon, len(shape.targets), shape.season)
        return forecasts | {"least squares": self.straight_line.predict(windows)}

    def baseline(self, data: Data) -> float:
        if not isinstance(data.inputs, Windows) or not isinstance(data.targets, np.ndarray):
            checks.fail("data", "be a split of this task", type(data.inputs).__name__, kind=checks.KindError)
        windows, shape = data.inputs.array(), self.shape
        made = seasonal_naive(windows, shape.horizon, len(shape.targets), min(shape.season, shape.window))
        return float(np.square(made - data.targets[:, :-1]).mean(dtype=np.float64))

    def floor(self, data: Data) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Forecast(Forecasting):
    """Forecast your own series from a file: autapse run my.csv --forecast 12.

    Args:
        path: The file, with one row per step.
        sequence_column: The column with the series that a row belongs to; by default `sequence`, if there is one.
        time_column: The column with the times, by which the rows are sorted; by default `time` or `step`, if there is
            one.
        channels: The columns to read beside those to forecast and those that are known; by default all.
        times: What irregular times become: the time since the step before as a further channel (input), values at
            regular times between them (resample), or nothing (ignore). With auto, an input.
        time_step: The step to resample to; 0 for the median step.
    """

    path: str
    sequence_column: str = ""
    time_column: str = ""
    channels: tuple[str, ...] = ()
    times: Times = "auto"
    time_step: float = 0.0

    name: ClassVar[str] = "forecast"
    summary: ClassVar[str] = "forecast your own series: autapse run my.csv --forecast 12"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "channels", named_columns("channels", self.channels))
        checks.one_of("times", self.times, get_args(Times))
        checks.number("time_step", self.time_step, low=0.0)
        object.__setattr__(self, "path", str(Path(self.path).absolute()))  # the run may be loaded from another folder

    @property
    def layout(self) -> FileLayout:
        """What the columns of the file are."""
        read = dict.fromkeys((*self.channels, *self.target_column, *self.known)) if self.channels else ()
        return FileLayout(
            self.sequence_column, self.time_column, channels=tuple(read), times=self.times, time_step=self.time_step
        )

    def history(self) -> Histories:
        return self._history

    @cached_property
    def _history(self) -> Histories:
        return read_history(Path(self.path), self.layout, self.known).history


@dataclass(frozen=True, init=False)
class ForecastArrays(Forecasting):
    """Forecast series in memory, from Python.

    Args:
        series: One series, [T] or [T, D]; or a list of them, of any lengths.
        channels: Names of the D channels; by default x1, x2, ...
        sha256: Checksum of the arrays; set by the task. A resumed run must have the same checksum.
        options: The options of all forecasting tasks, by name.

    Example:
        >>> task = ForecastArrays(np.sin(2 * np.pi * np.arange(200) / 20), horizon=10)
        >>> task.shape.season, task.shape.window, len(task.split("test", seed=0))
        (20, 25, 31)
    """

    sha256: str = ""

    name: ClassVar[str] = "forecast-arrays"
    summary: ClassVar[str] = "forecast arrays in memory; from Python only"

    def __init__(
        self, series: Any = None, *, channels: Sequence[str] = (), sha256: str = "", horizon: int, **options: Any
    ) -> None:
        """The config of a run has the checksum of the arrays, not the arrays."""
        known = {"sha256": sha256, "horizon": horizon, **options}
        if series is not None:
            history = Histories.of(series, channels)
            known |= {"sha256": _checksum(history), "_history": history}
        fields = {name: field.default for name, field in self.__dataclass_fields__.items()}
        for name in options:
            checks.one_of("option", name, [name for name in fields if name != "sha256"])
        for name, value in {**fields, **known}.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    def history(self) -> Histories:
        history: Histories | None = getattr(self, "_history", None)
        if history is None:
            remedy = "Pass them again: Trainer.resume(folder, task=ForecastArrays(...))."
            raise checks.InputError(f"This run was trained on arrays in memory, which are not in its folder. {remedy}")
        return history


def _checksum(history: Histories) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(history.values.values).tobytes())
    digest.update(history.values.lengths.tobytes())
    return digest.hexdigest()


def _sums(series: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:  # [N], [N, K] -> [count, K]
    """The sum of the rows of each series."""
    return np.stack([np.bincount(series, column, minlength=count) for column in values.T], axis=1)
