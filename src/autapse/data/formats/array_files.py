"""Sequences from numpy's files.

.npz: `inputs` [N, T, channels] or [N, T], and `targets`. Integers or text are classes: [N], or [N, T] for a class at
every step. Floats are values to predict: [N] or [N, K], or [N, T] or [N, T, K] for values at every step. If the
sequences differ in length, `lengths` [N] has their lengths; steps after the length are ignored. `channels` may have the
names of the channels.

.npy, without targets: [N, T, channels], or [T, channels] for one sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from autapse import checks
from autapse.data.formats import npy
from autapse.data.formats.decimals import ALLOW
from autapse.data.formats.sequences import FileLayout, Parsed
from autapse.data.formats.timeseries import LARGEST, ordered_labels
from autapse.data.ragged import Ragged
from autapse.data.reading import read_bytes

NAMES = ("inputs", "targets", "lengths", "channels")


def read_npz(path: Path, layout: FileLayout, needed: Sequence[str]) -> Parsed:
    """The sequences of a .npz file."""
    arrays = npy.read_npz(read_bytes(path), path, needed, NAMES)
    inputs = _inputs(path, arrays, layout.missing)
    channels = _channel_names(path, arrays.get("channels"), inputs.values.shape[1])
    parsed = Parsed(inputs, (), channels, None, ())
    if "targets" in arrays:
        steps = arrays["inputs"].shape[1]
        targets, labels = _targets(path, arrays["targets"], steps, inputs.lengths, layout)
        parsed = parsed._replace(targets=targets, labels=labels)
    return parsed.ordered(path, layout.channels)


def read_npy(path: Path, layout: FileLayout) -> Parsed:
    """The sequences of a .npy file."""
    array = npy.read_npy(read_bytes(path), path)
    if array.ndim not in (2, 3):
        _fail(path, "the array", "be numbers of shape [N, T, channels] or [T, channels]", array)
    inputs = _inputs(path, {"inputs": array if array.ndim == 3 else array[None]}, layout.missing)
    return Parsed(inputs, (), (), None, ())


def _inputs(path: Path, arrays: dict[str, np.ndarray], missing: bool) -> Ragged:
    inputs = arrays["inputs"]
    if inputs.ndim not in (2, 3) or 0 in inputs.shape or inputs.dtype.kind not in "fiub":
        _fail(path, "inputs", "be numbers of shape [N, T, channels] or [N, T]", inputs)
    inputs = inputs.reshape(*inputs.shape[:2], -1)
    lengths = _lengths(path, arrays.get("lengths"), inputs)
    there = np.arange(inputs.shape[1]) < lengths[:, None]  # [N, T]
    good = np.abs(inputs.astype(np.float64)) <= LARGEST  # false for NaN
    good |= np.isnan(inputs) if missing else False
    wrong = there & ~good.all(axis=2)
    if wrong.any():
        n, t = np.argwhere(wrong)[0]
        remedy = f" {ALLOW}." if np.isnan(inputs[n, t]).any() else ""
        value = inputs[n, t].tolist()
        raise checks.InputError(f"{path}, inputs[{n}, {t}]: {value} has a value that is not finite.{remedy}")
    return Ragged(inputs[there].astype(np.float32), lengths)


def _channel_names(path: Path, names: np.ndarray | None, count: int) -> tuple[str, ...]:
    if names is None:
        return ()
    if names.dtype.kind not in "US" or names.shape != (count,):
        _fail(path, "channels", f"be text of shape [channels] = ({count},)", names)
    return tuple(_texts(path, "channels", names))


def _lengths(path: Path, lengths: np.ndarray | None, inputs: np.ndarray) -> np.ndarray:  # [N] int64
    count, steps = inputs.shape[:2]
    if lengths is None:
        return np.full(count, steps, dtype=np.int64)
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
        _fail(path, "lengths", f"be integers of shape [N] = ({count},)", lengths)
    wrong = (lengths < 1) | (lengths > steps)
    if wrong.any():
        n = int(wrong.argmax())
        raise checks.InputError(f"{path}, lengths[{n}]: {lengths[n]} is not one of 1 to {steps}.")
    return lengths.astype(np.int64)


def _targets(
    path: Path, targets: np.ndarray, steps: int, lengths: np.ndarray, layout: FileLayout
) -> tuple[np.ndarray | Ragged, tuple[str, ...]]:
    values = targets.dtype.kind == "f"
    per_step = _per_step(path, targets, steps, len(lengths), values, layout)
    chosen = targets[np.arange(steps) < lengths[:, None]] if per_step else targets
    if values:
        _check_values(path, targets, chosen, np.arange(steps) < lengths[:, None] if per_step else None)
    flat, labels = (
        (chosen.reshape(len(chosen), -1).astype(np.float32), ()) if values else classes(_texts(path, "targets", chosen))
    )
    return (Ragged(flat, lengths) if per_step else flat), labels


def _per_step(path: Path, targets: np.ndarray, steps: int, count: int, values: bool, layout: FileLayout) -> bool:
    """Whether the targets are one per step, from their shape. [N, T] values may be either, so an option must tell."""
    shape, possible = targets.shape, targets.dtype.kind in "fiubUS" and targets.size > 0
    series = possible and (shape == (count,) or (values and len(shape) == 2 and shape[0] == count))
    step = possible and (shape == (count, steps) or (values and len(shape) == 3 and shape[:2] == (count, steps)))
    if layout.per != "auto" and not (step if layout.per == "step" else series):
        shapes = f"[N, T] = {(count, steps)}" if layout.per == "step" else f"[N] = ({count},)"
        _fail(path, "targets", f"have shape {shapes}, for --targets {layout.per}", targets)
    if not (series or step):
        rule = (
            f"be integers or text of shape [N] = ({count},), or floats of shape [N] or [N, K]; or one per step, [N, T]"
        )
        _fail(path, "targets", rule, targets)
    if series and step and layout.per == "auto" and steps > 1:
        meant = f"one value for each of the {steps} steps, or {steps} values for each series"
        remedy = "Choose --targets step or --targets series."
        raise checks.InputError(f"{path}: targets of shape {shape} may be {meant}. {remedy}")
    return layout.per == "step" or (step and not series)


def _check_values(path: Path, targets: np.ndarray, chosen: np.ndarray, there: np.ndarray | None) -> None:
    bad = ~(np.abs(chosen) <= LARGEST)
    if bad.any():
        whole = np.zeros(targets.shape, dtype=bool)
        whole[... if there is None else there] = bad
        first = tuple(np.argwhere(whole)[0].tolist())
        place = ", ".join(map(str, first))
        raise checks.InputError(f"{path}, targets[{place}]: {targets[first]} is not a finite number.")


def _texts(path: Path, name: str, array: np.ndarray) -> list[str]:
    try:
        text = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        return [str(value) for value in text.tolist()]
    except (ValueError, SystemError) as error:  # raised by numpy for codes that are not characters
        raise checks.InputError(f"{path}: {name} must be UTF-8 text ({error}).") from None


def classes(texts: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The class of each text, and the names of the classes."""
    labels = ordered_labels(texts)
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places[text] for text in texts], dtype=np.int64), labels


def _fail(path: Path, name: str, rule: str, array: np.ndarray) -> NoReturn:
    raise checks.InputError(f"{path}: {name} must {rule}; got {array.dtype} of shape {array.shape}.")
