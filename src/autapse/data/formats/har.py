"""UCI HAR: windows of 128 steps at 50 Hz from a phone at the waist, filtered and cut by its authors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autapse.data.archives import FileTree, open_tree
from autapse.data.formats.recordings import Recordings, folder_of, numbers, whole_numbers
from autapse.data.reading import damaged

STEPS = 128
SIGNALS = tuple(f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
ACTIVITIES = 6  # walking, upstairs, downstairs, sitting, standing, laying
SUBJECTS = 30


def read_uci_har(path: Path) -> Recordings:
    """The folder 'UCI HAR Dataset' or its zip. Channels: body acceleration, gyroscope, total acceleration, each x y z.

    The authors' split is by subject.
    """
    with open_tree(path) as tree:
        folder = folder_of(tree, "train/y_train.txt")
        parts = [_part(tree, folder, part) for part in ("train", "test")]
    windows, labels, subjects = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    is_test = np.arange(len(labels)) >= len(parts[0][1])
    return Recordings(windows, labels, subjects, is_test)


def _part(tree: FileTree, folder: str, part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    labels = _integers(tree, f"{folder}{part}/y_{part}.txt", ACTIVITIES, "the activity") - 1
    subjects = _integers(tree, f"{folder}{part}/subject_{part}.txt", SUBJECTS, "the subject", rows=len(labels))
    windows = np.empty((len(labels), STEPS, len(SIGNALS)), dtype=np.float32)
    for channel, signal in enumerate(SIGNALS):
        name = f"{folder}{part}/Inertial Signals/{signal}_{part}.txt"
        windows[:, :, channel] = _table(tree, name, STEPS, len(labels))
    return windows, labels, subjects


def _integers(tree: FileTree, name: str, high: int, what: str, rows: int | None = None) -> np.ndarray:
    return whole_numbers(_table(tree, name, 1, rows)[:, 0], tree.where(name), 1, high, what)


def _table(tree: FileTree, name: str, columns: int, rows: int | None) -> np.ndarray:
    table = numbers(tree.read(name), tree.where(name), columns)
    if rows is not None and len(table) != rows:
        damaged(tree.where(name), f"line {len(table)}", f"it has {len(table)} rows, but there are {rows} labels")
    return table
