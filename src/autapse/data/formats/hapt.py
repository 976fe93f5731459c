"""HAPT: the raw recordings of UCI HAR's second version, filtered and cut as HAR's authors describe."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autapse import checks
from autapse.data.archives import FileTree, open_tree
from autapse.data.filters import lowpass, median3
from autapse.data.formats.recordings import Recordings, folder_of, numbers
from autapse.data.reading import damaged

RATE = 50.0  # Hz
NOISE, GRAVITY = 20.0, 0.3  # Hz: frequencies above are noise; acceleration below is gravity
STEPS, STRIDE = 128, 64
ACTIVITIES = 6  # 7 to 12 are transitions between postures, which HAR does not use
HIGHEST = 12
TEST_SUBJECTS = (2, 4, 9, 10, 12, 13, 18, 20, 24)  # as in HAR
LABELS = "labels.txt"


def read_hapt(path: Path) -> Recordings:
    """Read HAR's windows from the folder RawData, or from an archive that contains it.

    Channels as in HAR: body acceleration, gyroscope, total acceleration, each x y z.
    """
    with open_tree(path) as tree:
        folder = folder_of(tree, LABELS)
        rows = _rows(tree, folder)
        signals = {pair: channels(_recording(tree, folder, *pair)) for pair in dict.fromkeys(row[:2] for row in rows)}
        where = tree.where(folder + LABELS)
    kept = [(_cut(signals, row, where, line), row) for line, row in enumerate(rows, start=1) if row[2] <= ACTIVITIES]
    if not any(len(cut) for cut, _ in kept):
        raise checks.InputError(f"{where} marks no activity of at least {STEPS} steps.")
    counts = [len(cut) for cut, _ in kept]
    subjects, activities = (np.repeat([row[column] for _, row in kept], counts) for column in (1, 2))
    windows = np.concatenate([cut for cut, _ in kept])
    return Recordings(windows, activities - 1, subjects, np.isin(subjects, TEST_SUBJECTS))


def channels(raw: np.ndarray) -> np.ndarray:  # [T, 6] -> [T, 9] float32
    """HAR's nine channels from the acceleration and rotation of one recording.

    The authors state the filters, but not whether they are causal or zero-phase, nor the order of the filter for
    gravity. We use zero-phase filters, which do not shift the signal against its labels, and the same order for both.
    """
    clean = lowpass(median3(raw), NOISE, RATE)
    total, rotation = clean[:, :3], clean[:, 3:]
    body = total - lowpass(total, GRAVITY, RATE)
    return np.concatenate([body, rotation, total], axis=1).astype(np.float32)


def _rows(tree: FileTree, folder: str) -> list[tuple[int, int, int, int, int]]:
    """Experiment, user, activity, first and last sample of every labelled segment; samples are counted from 1."""
    name = tree.where(folder + LABELS)
    rows = []
    for line, row in enumerate(numbers(tree.read(folder + LABELS), name, 5), start=1):
        if (row != np.floor(row)).any() or row.min() < 1:
            damaged(name, f"line {line}", "its values are not positive integers")
        experiment, user, activity, first, last = (int(value) for value in row)
        if activity > HIGHEST:
            damaged(name, f"line {line}", f"the activity is {activity}, not one of 1 to {HIGHEST}")
        rows.append((experiment, user, activity, first, last))
    return rows


def _recording(tree: FileTree, folder: str, experiment: int, user: int) -> np.ndarray:  # [T, 6]
    """Acceleration in g and rotation in rad/s, x y z each."""
    names = [f"{folder}{kind}_exp{experiment:02d}_user{user:02d}.txt" for kind in ("acc", "gyro")]
    acceleration, rotation = (numbers(tree.read(name), tree.where(name), 3) for name in names)
    if len(acceleration) != len(rotation):
        line, reason = len(rotation), f"it has {len(rotation)} rows and the acceleration {len(acceleration)}"
        damaged(tree.where(names[1]), f"line {line}", reason)
    return np.hstack([acceleration, rotation])


def _cut(
    signals: dict[tuple[int, int], np.ndarray], row: tuple[int, int, int, int, int], where: str, line: int
) -> np.ndarray:  # [windows, STEPS, 9]
    experiment, user, _, first, last = row
    signal = signals[experiment, user]
    if not first <= last <= len(signal):
        damaged(where, f"line {line}", f"samples {first} to {last} are not in a recording of {len(signal)}")
    starts = range(first - 1, last - STEPS + 1, STRIDE)
    return np.array([signal[start : start + STEPS] for start in starts], np.float32).reshape(-1, STEPS, signal.shape[1])
