"""Strokes of a pen: letters of a small random font, as a hand would draw them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from string import ascii_lowercase
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Generated, Signature, Split, WrittenShape, generator
from autapse.tasks.generation import Generation, nothing
from autapse.tasks.stored import standardisation

Given = Literal["letter", "nothing"]
COLUMNS = ("dx", "dy", "pen up")
FINE = 12  # points of the curve between two control points, before it is cut into equal steps
PEN = 0.16  # length of a step
TREMOR = 0.01  # deviation of a point from its curve; without it, a step would follow exactly from the steps before
LONGEST = 80
TRIES = 5000  # random points for one curve
SHAPES = ((5,), (6,), (4, 3), (5, 2), (3, 3))  # points of each curve of a letter


@dataclass(frozen=True, kw_only=True)
class Strokes(Generation, Generated):
    """y_t is the way of a pen: its offset (dx, dy) to the next point, and 1 if it is lifted after that point.

    A font has one or two smooth curves per letter. Each drawing varies: the points that a curve passes through, slant,
    size, direction and speed; and the hand trembles. The first offset is the way from the middle of the letter to its
    first point.

    Args:
        letters: Letters of the font, at most 26.
        font: Seed of the font.
        given: What a drawing depends on: the letter, or nothing.
        train_size, validation_size, test_size: Number of drawings in each split.

    Example:
        >>> data = Strokes().split("test", seed=0)
        >>> data.targets[0].shape[1], data.inputs.shape
        (3, (500, 1, 1))
    """

    train_size: int = 5_000
    validation_size: int = 300
    test_size: int = 500
    letters: int = 10
    font: int = 0
    given: Given = "letter"

    name: ClassVar[str] = "strokes"
    summary: ClassVar[str] = "draw letters with a pen, like handwriting"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("letters", self.letters, minimum=1, maximum=len(ascii_lowercase))
        checks.seed("font", self.font)
        checks.one_of("given", self.given, get_args(Given))

    @property
    def input_size(self) -> int:
        return int(self.given == "letter")

    @property
    def output_size(self) -> int:
        return 3

    def signature(self) -> Signature:
        offsets = self._drawings(np.random.default_rng([self.font, 1]), 500)[1].values[:, :2]
        mean, scale = standardisation(offsets)
        written: dict[str, Any] = {"values": 2, "binary": 1, "mean": mean, "scale": scale, "longest": LONGEST}
        depends: Any = "vector" if self.given == "letter" else "nothing"
        return Signature(
            kind=self.kind,
            input_size=self.input_size,
            output_size=3,
            vocabularies=(tuple(ascii_lowercase[: self.letters]),) if self.given == "letter" else (),
            written=WrittenShape(depends=depends, columns=COLUMNS, **written),
        )

    def split(self, split: Split, seed: int) -> Data:
        chosen, drawings = self._drawings(generator(split, seed), self.size(split))
        return Data(chosen[:, None, None] if self.given == "letter" else nothing(len(chosen)), drawings)

    def _drawings(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, Ragged]:
        """The letter of each drawing, [N], and the drawings."""
        font, chosen = _font(self.font, self.letters), rng.integers(0, self.letters, size)
        return chosen, Ragged.of([_drawing(font[letter], rng) for letter in chosen])


@lru_cache(maxsize=4)
def _font(seed: int, letters: int) -> list[list[np.ndarray]]:
    """The curves of each letter, as points [n, 2] that they pass through, in a box from −1 to 1."""
    rng = np.random.default_rng(seed)
    font = []
    for _ in range(letters):
        sizes = SHAPES[rng.integers(len(SHAPES))]
        font.append([_curve(size, rng) for size in sizes])
    return font


def _curve(size: int, rng: np.random.Generator) -> np.ndarray:  # [size, 2]
    """Random points that a pen can follow. It starts again if it cannot continue, as in a corner of the box."""
    points = rng.uniform(-1, 1, (1, 2))
    for _ in range(TRIES):
        if len(points) == size:
            return points
        more = np.concatenate([points, rng.uniform(-1, 1, (1, 2))])
        points = more if _is_fluent(more) else points
    return _curve(size, rng)


def _is_fluent(points: np.ndarray) -> bool:  # [n, 2]
    """Whether the last point is away from the one before it, and the pen need not turn back to reach it."""
    ways = np.diff(points[-3:], axis=0)
    sizes = np.linalg.norm(ways, axis=1)
    return bool(sizes[-1] > 0.6 and (len(ways) < 2 or ways[0] @ ways[1] > -0.6 * sizes[0] * sizes[1]))


def _drawing(curves: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:  # [T, 3] float32
    """One drawing of a letter: offsets, and whether the pen is lifted."""
    turn, slant, size = rng.normal(0, 0.1), rng.normal(0, 0.15), np.exp(rng.normal(0, 0.1, 2))
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    change = rotation @ np.array([[1, slant], [0, 1]]) @ np.diag(size)
    step = PEN * np.exp(rng.normal(0, 0.15))
    strokes = [_evenly(_smooth(points + rng.normal(0, 0.05, points.shape)) @ change.T, step) for points in curves]
    points = np.concatenate(strokes)[:LONGEST]
    points = points + rng.normal(0, TREMOR, points.shape)
    lifted = np.zeros(len(points))
    lifted[np.cumsum([len(stroke) for stroke in strokes]).clip(max=len(points)) - 1] = 1
    offsets = np.diff(points, axis=0, prepend=np.zeros((1, 2)))
    return np.column_stack([offsets, lifted]).astype(np.float32)


def _smooth(points: np.ndarray) -> np.ndarray:  # [n, 2] -> [many, 2]
    """A curve through the points: the spline of Catmull and Rom."""
    p = np.concatenate([2 * points[:1] - points[1:2], points, 2 * points[-1:] - points[-2:-1]])
    t = np.linspace(0, 1, FINE, endpoint=False)[:, None]
    pieces = []
    for n in range(len(points) - 1):
        a, b, c, d = p[n : n + 4]
        cubic = (-a + 3 * b - 3 * c + d) * t**3
        pieces.append(0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + cubic))
    return np.concatenate([*pieces, points[-1:]])


def _evenly(curve: np.ndarray, step: float) -> np.ndarray:  # [many, 2] -> [T, 2]
    """Points of a curve at equal distances of about `step`, its ends included."""
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    places = np.linspace(0, along[-1], max(2, round(along[-1] / step)))
    return np.stack([np.interp(places, along, axis) for axis in curve.T], axis=1)


def pen_lines(drawing: np.ndarray) -> list[np.ndarray]:  # [T, 3] -> [n, 2] each
    """The lines that a pen draws, from its offsets.

    Args:
        drawing: dx, dy and whether the pen is lifted after that point.

    Returns:
        The points of each line.

    Example:
        >>> pen_lines(np.array([[1, 0, 0], [0, 1, 1], [2, 2, 0]]))[0].tolist()
        [[1, 0], [1, 1]]
    """
    points = np.cumsum(drawing[:, :2], axis=0)
    ends = np.flatnonzero(drawing[:, 2] > 0.5) + 1
    return [line for line in np.split(points, ends) if len(line)]
