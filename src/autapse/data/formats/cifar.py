"""CIFAR-10's binary version: records of one label byte and three planes of 32 × 32, red, green, blue."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autapse.data.archives import FileTree, open_tree
from autapse.data.formats.recordings import folder_of
from autapse.data.reading import damaged

TRAIN = tuple(f"data_batch_{n}.bin" for n in range(1, 6))
TEST = "test_batch.bin"
RECORD = 1 + 3 * 32 * 32
CLASSES = 10


def read_cifar10(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images uint8 [N, 32, 32, 3] and labels int64 [N] of the training set, then of the test set."""
    with open_tree(path) as tree:
        folder = folder_of(tree, TRAIN[0])
        batches = [_batch(tree, folder + name) for name in TRAIN]
        test_images, test_labels = _batch(tree, folder + TEST)
    images, labels = zip(*batches, strict=True)
    return np.concatenate(images), np.concatenate(labels), test_images, test_labels


def _batch(tree: FileTree, name: str) -> tuple[np.ndarray, np.ndarray]:
    content, where = tree.read(name), tree.where(name)
    if len(content) == 0 or len(content) % RECORD:
        damaged(where, f"byte {len(content)}", f"it ends inside a record; a record has {RECORD} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= CLASSES:
        record = int((labels >= CLASSES).argmax())
        damaged(where, f"byte {record * RECORD}", f"label {labels[record]} is not one of 0 to {CLASSES - 1}")
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels
