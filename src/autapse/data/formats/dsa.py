"""Daily and Sports Activities (UCI): five body sensors of nine channels, segments of five seconds at 25 Hz."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np

from autapse.data.archives import FileTree, open_tree
from autapse.data.formats.npy import read_npz
from autapse.data.formats.recordings import Recordings, folder_of, numbers
from autapse.data.reading import damaged, read_bytes

STEPS, CHANNELS = 125, 45
ACTIVITIES, SUBJECTS = 19, 8
SEGMENT = re.compile(r"a(\d\d)/p(\d)/s(\d\d)\.txt(\.\w+)?")
# The papers state 4560 training and 4560 test segments, but not how they were split. We split by subject, because the
# segments of one subject's five minutes are too similar to be in both sets.
FIRST_TEST_SUBJECT = 5
ARRAYS = ("hi", "lo", "step", "activity", "subject")


def read_dsa(path: Path) -> Recordings:
    """Read the original folder or zip (data/a01/p1/s01.txt ...), or the quantised .npz, compressed or not.

    The data set has 19 activities × 8 subjects × 60 segments. A part of each is enough, if the grid has no gaps.
    """
    if ".npz" in path.suffixes:
        windows, activities, subjects = _quantised(path)
    else:
        with open_tree(path) as tree:
            windows, activities, subjects = _segments(tree)
    return Recordings(windows, activities - 1, subjects, subjects >= FIRST_TEST_SUBJECT)


def _segments(tree: FileTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    folder = folder_of(tree, "a01/p1/s01.txt")
    matches = [match for name in tree.names() if (match := SEGMENT.fullmatch(name.removeprefix(folder)))]
    grid = list(product(*(sorted({match[group] for match in matches}) for group in (1, 2, 3))))
    activities, subjects, _ = np.array(grid, dtype=np.int64).T
    _check_range(tree.root, "folder a{value:02d}", activities, ACTIVITIES)
    _check_range(tree.root, "folder p{value}", subjects, SUBJECTS)
    windows = np.empty((len(grid), STEPS, CHANNELS), dtype=np.float32)
    for n, (activity, subject, segment) in enumerate(grid):
        windows[n] = _segment(tree, f"{folder}a{activity}/p{subject}/s{segment}.txt")
    return windows, activities, subjects


def _segment(tree: FileTree, name: str) -> np.ndarray:
    table = numbers(tree.read(name), tree.where(name), CHANNELS, ",")
    if len(table) != STEPS:
        damaged(tree.where(name), f"line {len(table)}", f"it has {len(table)} rows instead of {STEPS}")
    return table


def _quantised(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First differences over time in units of each channel's step, as the two bytes of an int16.

    hi, lo: uint8 [channels, N, steps]; step: float32 [channels]; activity, subject: uint8 [N], from 1.
    """
    arrays = read_npz(read_bytes(path), path, ARRAYS)
    high, low, step = arrays["hi"], arrays["lo"], arrays["step"]
    activities, subjects = (arrays[key].astype(np.int64) for key in ("activity", "subject"))
    shape = (len(step), len(activities), STEPS)
    for key in ("hi", "lo"):
        if arrays[key].shape != shape or arrays[key].dtype != np.uint8:
            damaged(path, f"array {key}", f"it is {arrays[key].dtype} {arrays[key].shape} instead of uint8 {shape}")
    if subjects.shape != activities.shape:
        damaged(path, "array subject", f"its shape is {subjects.shape} instead of {activities.shape}")
    _check_range(path, "array activity, place {place}", activities, ACTIVITIES)
    _check_range(path, "array subject, place {place}", subjects, SUBJECTS)
    windows = np.empty((len(activities), STEPS, len(step)), dtype=np.float32)
    for channel, unit in enumerate(step):  # one at a time: all at once would need four times the memory
        differences = (high[channel].astype(np.uint16) << 8 | low[channel]).view(np.int16)
        windows[:, :, channel] = np.cumsum(differences, axis=1, dtype=np.int16) * unit
    return windows, activities, subjects


def _check_range(path: Path, where: str, values: np.ndarray, highest: int) -> None:
    wrong = (values < 1) | (values > highest)
    if wrong.any():
        n = int(wrong.argmax())
        damaged(path, where.format(value=values[n], place=n), f"{values[n]} is not one of 1 to {highest}")
