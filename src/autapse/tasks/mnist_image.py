"""Handwritten digits as images, for networks that read rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autapse.tasks.base import Kind, Metric, Signature, dense
from autapse.tasks.images import MNIST
from autapse.tasks.stored import Examples, Parts, Stored

SIDE = 28  # pixels


@dataclass(frozen=True, kw_only=True)
class MNISTImage(Stored):
    """x is a digit of 28 × 28 pixels, in [0, 1], as an image; y is the digit.

    Args:
        validation: Share of the training images that is held out for validation.
    """

    name: ClassVar[str] = "mnist-image"
    data_sets: ClassVar[tuple[str, ...]] = MNIST.data_sets
    summary: ClassVar[str] = "recognise a handwritten digit by reading its rows and its columns"
    kind: ClassVar[Kind] = "image classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent class"

    def signature(self) -> Signature:
        classes = MNIST.classes
        return Signature(kind=self.kind, input_size=1, output_size=10, classes=classes, mean=(0.0,), scale=(255.0,))

    def parts(self) -> Parts:
        images = MNIST().images()
        return Parts(_with_width(images.train), _with_width(images.test))


def _with_width(part: Examples) -> Examples:
    """The pixels with the width of the image as the last column, [N, 784, 2] uint8."""
    pixels = dense(part.inputs)
    return Examples(np.concatenate([pixels, np.full_like(pixels, SIDE)], axis=-1), part.targets)
