"""What is measured: the shapes, by name or as TxBxDxH."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from autapse import checks


class Shape(NamedTuple):
    name: str
    steps: int  # T
    batch: int  # B
    inputs: int  # D
    hidden: int  # H

    def __str__(self) -> str:
        sizes = f"T{self.steps} B{self.batch} D{self.inputs} H{self.hidden}"
        return f"{self.name} ({sizes})" if self.name in SHAPES else sizes


STREAMING = "streaming"  # one step at a time, batch 1, the state kept: `layer.stream()`
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("pixel-mnist", 784, 128, 1, 128),
        Shape("har", 128, 128, 9, 80),
        Shape("adding", 400, 32, 2, 100),
        Shape("tagging", 40, 20, 256, 256),
        Shape("large", 100, 64, 64, 512),
        Shape("batch-1", 784, 1, 1, 128),
        Shape(STREAMING, 1, 1, 9, 80),
    )
}


def find_shape(name: str) -> Shape:
    """A shape by its name, or one of any size.

    >>> find_shape("12x4x3x5")
    Shape(name='12x4x3x5', steps=12, batch=4, inputs=3, hidden=5)
    """
    sizes = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)x([1-9]\d*)", name)
    if sizes:
        return Shape(name, *map(int, sizes.groups()))
    if name not in SHAPES:
        rule = f"be TxBxDxH, as in 50x8x3x64, or one of {', '.join(SHAPES)}"
        checks.fail("shape", rule, name, checks.closest(name, SHAPES))
    return SHAPES[name]


def find_shapes(names: Iterable[str]) -> list[Shape]:
    return [find_shape(name) for name in names]
