"""Handwritten digits, pixel by pixel: scikit-learn's 1797 images of 8 × 8, a small sequential MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.tasks.base import SPLITS, Data, Generated, Kind, Metric, Preset, Split, majority_error
from autapse.tasks.permuted import Permuted

IMAGES = 1797
PIXELS = 64


@dataclass(frozen=True, kw_only=True)
class Digits(Permuted, Generated):
    """x_t is pixel t of the image, row by row or in one fixed random order, in [0, 1]; y is the digit.

    The seed distributes the images over the three splits, with all classes in proportion.

    Args:
        permuted: Show the pixels in a random order, the same for all images.
        permutation_seed: Chooses that order.
        train_size, validation_size, test_size: Number of images in each split; together at most 1797.

    Example:
        >>> Digits(permuted=True).signature().output_size
        10
    """

    train_size: int = 1_197
    validation_size: int = 300
    test_size: int = 300

    name: ClassVar[str] = "digits"
    summary: ClassVar[str] = "name a handwritten digit that is shown pixel by pixel"
    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    preset: ClassVar[Preset] = "recipe"
    baseline_text: ClassVar[str] = "always the most frequent digit"
    input_size = 1
    output_size = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        total = sum(map(self.size, SPLITS))
        if total > IMAGES:
            checks.fail("train_size + validation_size + test_size", f"be at most {IMAGES}, the number of images", total)

    def split(self, split: Split, seed: int) -> Data:
        checks.one_of("split", split, SPLITS)
        images, digits = _load()
        start = sum(map(self.size, SPLITS[: SPLITS.index(split)]))
        chosen = _stratified_order(digits, seed)[start : start + self.size(split)]
        return Data(images[chosen][:, self.order(PIXELS), None], digits[chosen])

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> None:
        return None


def _load() -> tuple[np.ndarray, np.ndarray]:
    """Images [1797, 64] in [0, 1] and their digits [1797]."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise checks.InputError("The digits task needs scikit-learn: pip install 'autapse[sklearn]'") from None
    images, digits = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), digits.astype(np.int64)


def _stratified_order(classes: np.ndarray, seed: int) -> np.ndarray:
    """A random order that spreads each class evenly, so that every part of it has all classes in proportion."""
    rng = np.random.default_rng(checks.seed("seed", seed))
    place = np.empty(len(classes))
    for c in np.unique(classes):
        members = rng.permutation(np.flatnonzero(classes == c))
        place[members] = (np.arange(len(members)) + rng.random()) / len(members)
    return np.argsort(place)
