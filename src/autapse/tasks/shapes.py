"""Segmentation of generated images: which shape does each pixel belong to?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Generated, Kind, Metric, Signature, Split, generator, majority_error

CLASSES = ("background", "rectangle", "ellipse", "cross")
SMALLEST = 6  # pixels of the shorter side of a shape: fewer do not show which shape it is


@dataclass(frozen=True, kw_only=True)
class Shapes(Generated):
    """x is an image with noise and some overlapping shapes; y is, for each pixel, the kind of shape that is on top.

    All kinds have the same brightness on average, so that a pixel alone shows only whether it is in a shape at all. The
    network must find out from far pixels where the outline of the shape is.

    Args:
        smallest: Smallest height and width of an image.
        largest: Largest height and width of an image; both are uniform between the two.
        shapes: Largest number of shapes in an image; there is at least one.
        noise: Standard deviation of the noise. The brightness of a shape is from 0.5 to 1, that of the background 0.
        train_size, validation_size, test_size: Number of images in each split.

    Example:
        >>> data = Shapes(test_size=2).split("test", seed=0)
        >>> image = data.inputs[0]
        >>> len(image) % int(image[0, 1]), len(data.targets[0]) == len(image)  # the last column is the width
        (0, True)
    """

    smallest: int = 16
    largest: int = 24
    shapes: int = 3
    noise: float = 0.2
    train_size: int = 4_000
    validation_size: int = 200
    test_size: int = 500

    name: ClassVar[str] = "shapes"
    summary: ClassVar[str] = "find the pixels of rectangles, ellipses and crosses in a noisy image"
    kind: ClassVar[Kind] = "segmentation"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent class"
    input_size = 1
    output_size = len(CLASSES)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("smallest", self.smallest, minimum=SMALLEST + 2)
        checks.integer("largest", self.largest, minimum=self.smallest, maximum=1024)
        checks.integer("shapes", self.shapes, minimum=1, maximum=100)
        checks.number("noise", self.noise, low=0.0)

    def signature(self) -> Signature:
        return Signature(kind=self.kind, input_size=1, output_size=self.output_size, classes=CLASSES)

    def split(self, split: Split, seed: int) -> Data:
        rng = generator(split, seed)
        images = [self._image(rng) for _ in range(self.size(split))]
        return Data(Ragged.of([pixels for pixels, _ in images]), Ragged.of([classes for _, classes in images]))

    def _image(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The pixels row by row, [H·W, 2] with the width, and their classes, [H·W]."""
        height, width = rng.integers(self.smallest, self.largest + 1, 2)
        values, classes = np.zeros((height, width)), np.zeros((height, width), dtype=np.int64)
        for _ in range(rng.integers(1, self.shapes + 1)):
            kind = int(rng.integers(1, len(CLASSES)))
            covered = _shape(CLASSES[kind], (height, width), rng)
            values[covered], classes[covered] = rng.uniform(0.5, 1.0), kind
        values += self.noise * rng.standard_normal(values.shape)
        pixels = np.stack([values.ravel(), np.full(values.size, width)], axis=1)
        return pixels.astype(np.float32), classes.ravel()

    def baseline(self, data: Data) -> float:
        return majority_error(data.targets)

    def floor(self, data: Data) -> None:
        return None


def _shape(name: str, image: tuple[int, int], rng: np.random.Generator) -> np.ndarray:  # [H, W] bool
    """Which pixels a shape of random size and place covers."""
    sides = [int(rng.integers(SMALLEST, max(SMALLEST, round(0.75 * n)) + 1)) for n in image]
    corners = [int(rng.integers(0, n - side + 1)) for n, side in zip(image, sides, strict=True)]
    # How far a pixel is from the middle of the shape: −1 and 1 at its edges.
    y, x = np.meshgrid(
        *(
            (np.arange(n) - corner - (side - 1) / 2) / (side / 2)
            for n, corner, side in zip(image, corners, sides, strict=True)
        ),
        indexing="ij",
    )
    box = (np.abs(y) <= 1) & (np.abs(x) <= 1)
    if name == "ellipse":
        return np.asarray(y**2 + x**2 <= 1)
    return np.asarray(box if name == "rectangle" else box & ((np.abs(y) <= 1 / 3) | (np.abs(x) <= 1 / 3)))
