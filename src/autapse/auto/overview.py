"""A look at the data before training: what is there, in one short table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autapse.auto.folds import fold
from autapse.data.ragged import Ragged, dense
from autapse.records import Record
from autapse.tasks import IGNORE
from autapse.tasks.base import Kind
from autapse.tasks.own import OwnData
from autapse.tasks.scaling import scale_range
from autapse.tasks.stored import Examples, held_out

MOST_NAMES = 12  # of channels and classes that are printed
MOST_SCALES = 6  # channels and targets whose scales are printed


@dataclass(frozen=True, kw_only=True)
class Look(Record):
    """What was seen in the data. Everything but `test` is about the training data."""

    kind: Kind
    """Classification, regression, or one of them at every step."""
    train: int
    """Training series, those for validation included."""
    validation: int
    """Those of them that are held out for validation; 0 if each validates once in cross-validation."""
    folds: int
    """Folds of the cross-validation; 0 without it."""
    test: int
    """Test series."""
    channels: tuple[str, ...]
    """Names of the channels; their numbers if they have no names."""
    classes: dict[str, int]
    """Classes with their counts; empty for values."""
    lengths: tuple[int, int, int]
    """Shortest, median and longest series, in steps."""
    missing: float
    """Share of the values that are missing."""
    means: tuple[float, ...]
    """Mean of each channel."""
    deviations: tuple[float, ...]
    """Standard deviation of each channel."""
    targets: tuple[tuple[str, float, float], ...] = ()
    """Values to predict: their names, means and standard deviations; empty for classes."""
    series_spread: float
    """How much the scale differs between series: the standard deviation of the logarithm of a series' own standard
    deviation, the median over the channels. 0.7 is a factor of 2, 2.3 is a factor of 10."""
    reasons: tuple[str, ...] = ()
    """What was chosen, and why."""

    def rows(self) -> list[tuple[str, str]]:
        """The table: a name and a text per row."""
        low, middle, high = self.lengths
        lengths = f"{low} steps" if low == high else f"{low} to {high} steps, median {middle}"
        count = len(self.channels)
        named = self.channels != tuple(map(str, range(count)))
        shown = ": " + ", ".join(self.channels[:MOST_NAMES]) + (", …" if count > MOST_NAMES else "")
        rows = [
            ("series", f"{self.train + self.test}; {lengths}"),
            ("splits", self._splits()),
            ("channels", f"{count}{shown if named else ''}"),
        ]
        if self.classes:
            counts = [f"{name} ({count})" for name, count in list(self.classes.items())[:MOST_NAMES]]
            more = ", …" if len(self.classes) > MOST_NAMES else ""
            rows.append(("classes", f"{len(self.classes)}: {', '.join(counts)}{more}"))
        if self.targets:
            rows.append(("targets", f"{len(self.targets)}: {_scales(self.targets)}"))
        missing = "none" if not self.missing else f"{100 * self.missing:.2g} % of the values"
        rows.append(("missing", missing))
        between = f"series differ by a factor of {np.exp(self.series_spread):.2g}"
        names = self.channels if named else ("",) * count
        scales = _scales(tuple(zip(names, self.means, self.deviations, strict=True)))
        rows.append(("scale", f"{scales}; {between}"))
        return rows + [("chosen" if n == 0 else "", reason) for n, reason in enumerate(self.reasons)]

    def _splits(self) -> str:
        if self.folds > 1:
            return f"{self.train} for training, also for {self.folds}-fold cross-validation; {self.test} for the test"
        rest = f"{self.validation} for validation, {self.test} for the test"
        return f"{self.train - self.validation} for training, {rest}"


def look(task: OwnData, seed: int = 0, search: bool = False) -> Look:
    """Look at the data of a task.

    Args:
        task: a task with your own data: a file, a set of the archive, or arrays.
        seed: of the run, on which the validation series depend.
        search: whether a search will compare networks. It divides the training series by itself.

    Returns:
        What was seen; `rows()` is a table to print.

    >>> from autapse.tasks import ArrayTask
    >>> seen = look(ArrayTask(np.random.default_rng(0).normal(size=(10, 5, 2)), ["a", "b"] * 5))
    >>> seen.train, seen.test, seen.classes, seen.lengths
    (8, 2, {'a': 4, 'b': 4}, (5, 5, 5))
    """
    train, test = task.both()
    whole = Examples(train.inputs, train.targets)
    folded = fold(whole, seed) if search else None
    held = held_out(whole, task.validation, seed) if folded is None else folded.fold == 0
    values, lengths = train.inputs.values, train.inputs.lengths
    means, deviations = _moments(values)
    return Look(
        kind=task.kind,
        train=len(train),
        validation=0 if folded is not None and folded.count > 1 else int(held.sum()),
        folds=folded.count if folded is not None else 0,
        test=len(test),
        channels=train.channels or tuple(str(n) for n in range(values.shape[1])),
        classes=_counts(train.targets, train.labels),
        lengths=(int(lengths.min()), int(np.median(lengths)), int(lengths.max())),
        missing=float(np.isnan(values).mean()),
        means=means,
        deviations=deviations,
        targets=() if train.labels else _of_targets(task, dense(train.targets)),
        series_spread=scale_range(train.inputs),
        reasons=task.input_scaling().reasons,
    )


def _counts(targets: np.ndarray | Ragged, labels: tuple[str, ...]) -> dict[str, int]:
    if not labels:
        return {}
    flat = dense(targets)
    counts = np.bincount(flat[flat != IGNORE], minlength=len(labels))
    return dict(zip(labels, counts.tolist(), strict=True))


def _of_targets(task: OwnData, values: np.ndarray) -> tuple[tuple[str, float, float], ...]:
    names = getattr(task, "target_column", ()) or [str(n) for n in range(1, values.shape[1] + 1)]
    return tuple(zip(names, *_moments(values), strict=True))


def _moments(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the deviation of each column. The square of a large number needs float64."""
    columns = (values[:, n].astype(np.float64) for n in range(values.shape[1]))  # one by one, to save memory
    both = [(float(np.nanmean(column)), float(np.nanstd(column))) for column in columns]
    means, deviations = zip(*both, strict=True)
    return means, deviations


def with_deviation(mean: float, deviation: float) -> str:
    """A mean and a deviation with two digits of the deviation.

    >>> with_deviation(41.3702, 5.478), with_deviation(-0.0001, 0.81), with_deviation(2e6, 3e-9)
    ('41.4 ± 5.5', '0.00 ± 0.81', '2e+06 ± 3e-09')
    """
    digits = 1 - int(np.floor(np.log10(deviation))) if deviation > 0 else 2
    if abs(mean) >= 1e6 or not -5 <= digits <= 5:
        return f"{mean:.3g} ± {deviation:.2g}"
    digits = max(digits, 0)
    return f"{round(mean, digits) + 0.0:.{digits}f} ± {deviation:.{digits}f}"


def _scales(columns: tuple[tuple[str, float, float], ...]) -> str:
    """The mean and the deviation of each column; of many only the range of the deviations."""
    if len(columns) == 1:
        return with_deviation(*columns[0][1:])
    if len(columns) <= MOST_SCALES:
        return ", ".join(f"{name} {with_deviation(mean, deviation)}".lstrip() for name, mean, deviation in columns)
    deviations = [deviation for _, _, deviation in columns]
    return f"deviations {min(deviations):.3g} to {max(deviations):.3g}"
