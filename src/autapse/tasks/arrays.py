"""A task from arrays in memory: sequences with a target each, or a target at every step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, get_args

import numpy as np

from autapse import checks
from autapse.data.formats.sequences import Per
from autapse.data.formats.timeseries import LARGEST, Series, ordered_labels
from autapse.data.missing import Missing
from autapse.data.ragged import Ragged, alike, dense, padded_lengths
from autapse.tasks.base import Kind
from autapse.tasks.own import OwnData, check_count, divided, kind_of
from autapse.tasks.scaling import Scaling


@dataclass(frozen=True, init=False)
class ArrayTask(OwnData):
    """Sequences in memory, for training from Python.

    Args:
        x: The sequences, [N, T, D] or [N, T]; or a list of N arrays, [T_n, D] or [T_n], of any lengths.
        y: The targets. Integers or text are classes, floats are values to predict: one per sequence, [N] (values also
            [N, K]). For a target at every step: [N, T] (values also [N, T, K]), or a list of N arrays as long as the
            sequences.
        lengths: The number of steps of each sequence, if `x` is padded.
        test: (x, y) or (x, y, lengths) of the test sequences; without it, `test_share` of the sequences are held out.
        test_share: Share of the sequences in the test set.
        channels: Names of the channels.
        targets: Whether `y` has one entry per sequence ("series") or per step ("step"). It must be given only if the
            shape does not tell: floats [N, T].
        sha256: Checksum of the arrays; set by the task. A resumed run must have the same checksum.
        what: The kind of task; set by the task.

    The model scales its inputs. A run folder has the model but not the data. To resume such a run, pass the task again,
    as in `Trainer.resume(folder, task=task)`.

    Example:
        >>> task = ArrayTask(np.zeros((6, 5, 2)), ["a", "b"] * 3)
        >>> task.kind, task.signature().classes, len(task.split("train", seed=0))
        ('classification', ('a', 'b'), 3)
    """

    test_share: float = 0.2
    sha256: str = ""
    what: Kind = "classification"

    name: ClassVar[str] = "arrays"
    summary: ClassVar[str] = "learn from arrays in memory; from Python only"

    def __init__(
        self,
        x: Any = None,
        y: Any = None,
        lengths: Sequence[int] | np.ndarray | None = None,
        *,
        test: tuple[Any, ...] | None = None,
        test_share: float = 0.2,
        validation: float = 0.2,
        scaling: Scaling = "auto",
        missing: Missing = "error",
        differences: bool = False,
        channels: Sequence[str] = (),
        targets: Per = "auto",
        sha256: str = "",
        what: Kind = "classification",
    ) -> None:
        """The config of a run has only `sha256` and `what`, not the arrays."""
        own: dict[str, Any] = {"scaling": scaling, "missing": missing, "differences": differences}
        own |= {"validation": validation, "test_share": test_share, "sha256": sha256, "what": what}
        if x is not None or y is not None:
            checks.number("test_share", test_share, low=0.0, high=0.9)
            checks.one_of("targets", targets, get_args(Per))
            shares, gaps = (test_share, validation), missing != "error"
            both = _both(x, y, lengths, test, shares, tuple(channels), gaps, targets)
            own |= {"sha256": _checksum(both), "what": kind_of(both[0]), "_both": both}
        for name, value in own.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return self.what

    def both(self) -> tuple[Series, Series]:
        both: tuple[Series, Series] | None = getattr(self, "_both", None)
        if both is None:
            remedy = "Pass them again: Trainer.resume(folder, task=ArrayTask(x, y))."
            raise checks.InputError(f"This run was trained on arrays in memory, which are not in its folder. {remedy}")
        return both


def _both(
    x: Any,
    y: Any,
    lengths: Any,
    test: Any,
    shares: tuple[float, float],
    channels: tuple[str, ...],
    missing: bool,
    per: Per,
) -> tuple[Series, Series]:
    inputs = _inputs("x", x, lengths, missing)
    if len(channels) not in (0, inputs.values.shape[1]):
        checks.fail("channels", f"name all {inputs.values.shape[1]} channels of x", channels, kind=checks.ShapeError)
    targets = _targets("y", y, inputs, x, per)
    if test is None:
        labels, (known,) = _meaning([targets])
        both = divided(Series(inputs, known, labels, channels), shares[0])
        check_count(both, *shares, "x")
        return both
    if not isinstance(test, tuple | list) or len(test) not in (2, 3):
        checks.fail("test", "be (x, y) or (x, y, lengths)", type(test).__name__, kind=checks.KindError)
    other = _inputs("x of test", test[0], test[2] if len(test) == 3 else None, missing)
    if other.values.shape[1] != inputs.values.shape[1]:
        rule = f"have {inputs.values.shape[1]} channels, as x has"
        checks.fail("x of test", rule, other.values.shape[1], kind=checks.ShapeError)
    same: Per = "step" if isinstance(targets, Ragged) else "series"
    labels, (first, second) = _meaning([targets, _targets("y of test", test[1], other, test[0], same)])
    return Series(inputs, first, labels, channels), Series(other, second, labels, channels)


def _inputs(name: str, x: Any, lengths: Any, missing: bool) -> Ragged:
    """The sequences as ragged float32 arrays, [T_n, D] each."""
    if isinstance(x, list | tuple):
        sequences = [np.asarray(one) for one in x]
        if lengths is not None:
            checks.fail("lengths", f"be None if {name} is a list, whose arrays have their own lengths", lengths)
    else:
        array = np.asarray(x)
        if array.ndim not in (2, 3):
            checks.fail(name, "have shape [N, T, D] or [N, T], or be a list", array.shape, kind=checks.ShapeError)
        ends = padded_lengths(lengths, *array.shape[:2])
        sequences = [one[:end] for one, end in zip(array, ends, strict=True)]
    if not sequences:
        checks.fail(name, "have at least one sequence", 0)
    checked = [_sequence(name, n, one, missing) for n, one in enumerate(sequences)]
    widths = sorted({one.shape[1] for one in checked})
    if len(widths) > 1:
        checks.fail(name, "have the same number of channels in every sequence", widths, kind=checks.ShapeError)
    return Ragged.of(checked)


def _sequence(name: str, n: int, values: np.ndarray, missing: bool) -> np.ndarray:
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not len(values) or not values.shape[1]:
        rule = "have shape [T, D] or [T] with at least one step"
        checks.fail(f"{name}[{n}]", rule, values.shape, kind=checks.ShapeError)
    if values.dtype.kind not in "fiub":
        checks.fail(f"{name}[{n}]", "have numbers", str(values.dtype), kind=checks.KindError)
    good = np.abs(values.astype(np.float64)) <= LARGEST  # false for NaN
    if not (good | np.isnan(values) if missing else good).all():
        remedy = 'To allow missing values (NaN), choose missing="mask", "forward" or "mean".'
        checks.fail(f"{name}[{n}]", "have finite values only", "NaN or infinity", "" if missing else remedy)
    return values.astype(np.float32)


def _targets(name: str, y: Any, inputs: Ragged, x: Any, per: Per) -> np.ndarray | Ragged:
    """The targets as an array [N] or [N, K], or ragged with one entry per step, [steps] or [steps, K]."""
    if isinstance(y, list | tuple) and any(np.ndim(one) for one in y):
        rows = [np.asarray(one) for one in y]
    else:
        array = np.asarray(y)
        rows = list(array) if array.ndim > 1 else []
        if not rows and (array.ndim != 1 or len(array) != len(inputs) or per == "step"):
            _misfit(name, array.shape)
        if not rows:
            return array
    if len(rows) != len(inputs):
        _misfit(name, [one.shape for one in rows[:3]])
    steps = int(inputs.lengths.max()) if isinstance(x, list | tuple) else np.shape(x)[1]
    if _per_step(name, rows, inputs.lengths, steps, per):
        return Ragged.of([row[:n] for row, n in zip(rows, inputs.lengths, strict=True)])
    return np.stack(rows)


def _per_step(name: str, rows: list[np.ndarray], lengths: np.ndarray, steps: int, per: Per) -> bool:
    """Whether the rows have one entry per step: as many as the sequence has, or as all have with their padding."""
    floats = all(row.dtype.kind == "f" for row in rows)
    padded = all(row.shape == rows[0].shape for row in rows)
    right = [len(row) == n for row, n in zip(rows, lengths, strict=True)]
    fits = [row.ndim in ((1, 2) if floats else (1,)) for row in rows]
    fits = [fit and (same or (padded and len(rows[0]) == steps)) for fit, same in zip(fits, right, strict=True)]
    step, series = all(fits), floats and padded and rows[0].ndim == 1
    if not (step or series) or (per != "auto" and not (step if per == "step" else series)):
        _misfit(name, [row.shape for row in rows[:3]])
    if per == "auto" and step and series and len(rows[0]) > 1:
        shape = (len(rows), len(rows[0]))
        rule = f"be clear: floats of shape {shape} may be one value for each step, or several for each sequence"
        checks.fail("targets", rule, per, 'Pass targets="step" or targets="series".')
    return per == "step" or (step and not series)


def _misfit(name: str, shape: Any) -> NoReturn:
    rule = "have one entry per sequence, [N] (values also [N, K]), or one per step, [N, T] (values also [N, T, K])"
    checks.fail(name, rule, shape, kind=checks.ShapeError)


def _meaning(targets: list[np.ndarray | Ragged]) -> tuple[tuple[str, ...], list[np.ndarray | Ragged]]:
    """The names of the classes, and the targets as arrays of classes or values."""
    flat = [dense(part) for part in targets]
    if all(part.dtype.kind == "f" for part in flat):
        if not all(np.isfinite(part).all() for part in flat):
            checks.fail("y", "have finite values only", "NaN or infinity")
        values = [part.reshape(len(part), -1).astype(np.float32) for part in flat]
        return (), [alike(part, own) for part, own in zip(targets, values, strict=True)]
    if not all(part.dtype.kind in "iubUSO" for part in flat):
        kinds = ", ".join(str(part.dtype) for part in flat)
        checks.fail("y", "be integers or text for classes, or floats for values to predict", kinds)
    labels = ordered_labels(str(value) for part in flat for value in np.unique(part.astype(str)))
    places = {label: place for place, label in enumerate(labels)}
    numbers = [np.array([places[value] for value in part.astype(str)], dtype=np.int64) for part in flat]
    return labels, [alike(part, own) for part, own in zip(targets, numbers, strict=True)]


def _checksum(both: tuple[Series, Series]) -> str:
    digest = hashlib.sha256()
    for part in both:
        for values in (part.inputs, part.targets):
            digest.update(np.ascontiguousarray(dense(values)).tobytes())
            digest.update(values.lengths.tobytes() if isinstance(values, Ragged) else b"")
    return digest.hexdigest()
