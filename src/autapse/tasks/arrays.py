"""A task from arrays in memory: sequences with a target each, or a target at every step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from autapse import checks
from autapse.data.formats.timeseries import LARGEST, ordered_labels
from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Kind, Metric, Signature, dense, majority_error
from autapse.tasks.stored import Examples, Parts, Stored, held_out, standardisation

METRICS: dict[Kind, Metric] = {
    "classification": "error rate",
    "tagging": "error rate",
    "regression": "mean squared error",
}


@dataclass(frozen=True, init=False)
class ArrayTask(Stored):
    """Sequences in memory, for training from Python.

    Args:
        x: The sequences, [N, T, D] or [N, T]; or a list of N arrays, [T_n, D] or [T_n], of any lengths.
        y: The targets. Integers or text are classes, floats are values to predict: one per sequence, [N] (values also
            [N, K]). For a class at every step: [N, T], or a list of N arrays as long as the sequences.
        lengths: The number of steps of each sequence, if `x` is padded.
        test: (x, y) or (x, y, lengths) of the test sequences; without it, `test_share` of the sequences are held out.
        test_share: Share of the sequences in the test set.
        validation: Share of the other sequences that is held out for validation.
        sha256: Checksum of the arrays; set by the task. A resumed run must have the same checksum.
        what: The kind of task; set by the task.

    The model standardises every channel. A run folder has the model but not the data. To resume such a run, pass the
    task again, as in `Trainer.resume(folder, task=task)`.

    Example:
        >>> task = ArrayTask(np.zeros((6, 5, 2)), ["a", "b"] * 3)
        >>> task.kind, task.signature().classes, len(task.split("train", seed=0))
        ('classification', ('a', 'b'), 3)
    """

    validation: float = 0.2
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
        sha256: str = "",
        what: Kind = "classification",
    ) -> None:
        """The config of a run has only `sha256` and `what`, not the arrays."""
        fields: dict[str, Any] = {"validation": validation, "test_share": test_share, "sha256": sha256, "what": what}
        if x is not None or y is not None:
            checks.number("test_share", test_share, above=0.0, high=0.9)
            parts, labels, kind = _parts(x, y, lengths, test, test_share)
            fields |= {"sha256": _checksum(parts), "what": kind, "_parts": parts, "_labels": labels}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return self.what

    @property
    def metric(self) -> Metric:  # type: ignore[override]
        return METRICS[self.what]

    @property
    def baseline_text(self) -> str:  # type: ignore[override]
        trivial = "always the mean of the training targets"
        return trivial if self.what == "regression" else "always the most frequent class"

    def parts(self) -> Parts:
        parts: Parts | None = getattr(self, "_parts", None)
        if parts is None:
            remedy = "Pass them again: Trainer.resume(folder, task=ArrayTask(x, y))."
            raise checks.InputError(f"This run was trained on arrays in memory, which are not in its folder. {remedy}")
        return parts

    def signature(self) -> Signature:
        train = self.parts().train
        channels, (mean, scale) = dense(train.inputs).shape[1], standardisation(dense(train.inputs))
        labels: tuple[str, ...] = getattr(self, "_labels", ())
        outputs = len(labels) or dense(train.targets).shape[1]
        sizes = {"input_size": channels, "output_size": outputs}
        known = Signature(kind=self.what, **sizes, classes=labels, mean=mean, scale=scale)
        if self.what != "regression":
            return known
        target_mean, target_scale = standardisation(dense(train.targets))
        return replace(known, target_mean=target_mean, target_scale=target_scale)

    def baseline(self, data: Data) -> float:
        if self.what != "regression":
            return majority_error(data.targets)
        return float(np.square(dense(data.targets) - dense(self.parts().train.targets).mean(axis=0)).mean())


def _parts(x: Any, y: Any, lengths: Any, test: Any, share: float) -> tuple[Parts, tuple[str, ...], Kind]:
    inputs = _inputs("x", x, lengths)
    targets = _targets("y", y, inputs)
    if test is None:
        kind, labels, (known,) = _meaning([targets])
        whole = Examples(inputs, known)
        if len(whole) < 3:
            checks.fail("x", "have at least three sequences, for training, validation and test", len(whole))
        held = held_out(whole, share, seed=0)
        return Parts(whole.take(np.flatnonzero(~held)), whole.take(np.flatnonzero(held))), labels, kind
    if not isinstance(test, tuple | list) or len(test) not in (2, 3):
        checks.fail("test", "be (x, y) or (x, y, lengths)", type(test).__name__, kind=checks.KindError)
    other = _inputs("x of test", test[0], test[2] if len(test) == 3 else None)
    if other.values.shape[1] != inputs.values.shape[1]:
        rule = f"have {inputs.values.shape[1]} channels, as x has"
        checks.fail("x of test", rule, other.values.shape[1], kind=checks.ShapeError)
    kind, labels, (first, second) = _meaning([targets, _targets("y of test", test[1], other)])
    return Parts(Examples(inputs, first), Examples(other, second)), labels, kind


def _inputs(name: str, x: Any, lengths: Any) -> Ragged:
    """The sequences as ragged float32 arrays, [T_n, D] each."""
    if isinstance(x, list | tuple):
        sequences = [np.asarray(one) for one in x]
        if lengths is not None:
            checks.fail("lengths", f"be None if {name} is a list, whose arrays have their own lengths", lengths)
    else:
        array = np.asarray(x)
        if array.ndim not in (2, 3):
            checks.fail(name, "have shape [N, T, D] or [N, T], or be a list", array.shape, kind=checks.ShapeError)
        ends = _checked_lengths(lengths, *array.shape[:2])
        sequences = [one[:end] for one, end in zip(array, ends, strict=True)]
    if not sequences:
        checks.fail(name, "have at least one sequence", 0)
    checked = [_sequence(name, n, one) for n, one in enumerate(sequences)]
    widths = sorted({one.shape[1] for one in checked})
    if len(widths) > 1:
        checks.fail(name, "have the same number of channels in every sequence", widths, kind=checks.ShapeError)
    return Ragged.of(checked)


def _sequence(name: str, n: int, values: np.ndarray) -> np.ndarray:
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not len(values) or not values.shape[1]:
        rule = "have shape [T, D] or [T] with at least one step"
        checks.fail(f"{name}[{n}]", rule, values.shape, kind=checks.ShapeError)
    if values.dtype.kind not in "fiub":
        checks.fail(f"{name}[{n}]", "have numbers", str(values.dtype), kind=checks.KindError)
    if not (np.abs(values.astype(np.float64)) <= LARGEST).all():  # false for NaN
        checks.fail(f"{name}[{n}]", "have finite values only", "NaN or infinity", "Replace them first.")
    return values.astype(np.float32)


def _checked_lengths(lengths: Any, count: int, steps: int) -> np.ndarray:
    if lengths is None:
        return np.full(count, steps)
    given = np.asarray(lengths)
    if given.shape != (count,) or given.dtype.kind not in "iu" or not ((given >= 1) & (given <= steps)).all():
        checks.fail("lengths", f"be {count} integers from 1 to {steps}, one per sequence", lengths)
    return given


def _targets(name: str, y: Any, inputs: Ragged) -> np.ndarray | Ragged:
    """The targets as an array [N] or [N, K], or ragged with one entry per step."""
    if isinstance(y, list | tuple) and any(np.ndim(one) for one in y):
        rows = [np.asarray(one) for one in y]
        if len(rows) == len(inputs) and all(one.shape == (n,) for one, n in zip(rows, inputs.lengths, strict=True)):
            return Ragged.of(rows)
        _misfit(name, [one.shape for one in rows[:3]])
    array = np.asarray(y)
    if array.ndim not in (1, 2) or len(array) != len(inputs):
        _misfit(name, array.shape)
    if array.ndim == 2 and array.dtype.kind != "f":  # a class at every step
        if array.shape[1] < inputs.lengths.max():
            _misfit(name, array.shape)
        return Ragged.of([row[:n] for row, n in zip(array, inputs.lengths, strict=True)])
    return array


def _misfit(name: str, shape: Any) -> NoReturn:
    rule = "have one entry per sequence, [N] (values also [N, K]), or one class per step, [N, T]"
    checks.fail(name, rule, shape, kind=checks.ShapeError)


def _meaning(targets: list[np.ndarray | Ragged]) -> tuple[Kind, tuple[str, ...], list[np.ndarray | Ragged]]:
    """The kind of task, the names of the classes, and the targets as arrays of classes or values."""
    flat = [dense(part) for part in targets]
    if all(part.dtype.kind == "f" for part in flat):
        if not all(np.isfinite(part).all() for part in flat):
            checks.fail("y", "have finite values only", "NaN or infinity")
        return "regression", (), [part.reshape(len(part), -1).astype(np.float32) for part in flat]
    if not all(part.dtype.kind in "iubUSO" for part in flat):
        kinds = ", ".join(str(part.dtype) for part in flat)
        checks.fail("y", "be integers or text for classes, or floats for values to predict", kinds)
    labels = ordered_labels(str(value) for part in flat for value in np.unique(part.astype(str)))
    places = {label: place for place, label in enumerate(labels)}
    encoded: list[np.ndarray | Ragged] = []
    for part, values in zip(targets, flat, strict=True):
        numbers = np.array([places[value] for value in values.astype(str)], dtype=np.int64)
        encoded.append(Ragged(numbers, part.lengths) if isinstance(part, Ragged) else numbers)
    return "tagging" if isinstance(targets[0], Ragged) else "classification", labels, encoded


def _checksum(parts: Parts) -> str:
    digest = hashlib.sha256()
    for part in (parts.train, parts.test):
        for values in (part.inputs, part.targets):
            digest.update(np.ascontiguousarray(dense(values)).tobytes())
            digest.update(values.lengths.tobytes() if isinstance(values, Ragged) else b"")
    return digest.hexdigest()
