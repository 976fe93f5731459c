"""A figure of a paper that a command draws: what the paper shows, what ours shows, and whether the claim holds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autapse import files
from autapse.records import Record
from autapse.training.config import RunConfig
from autapse.training.loop import Loop

FOLDER = "figures"  # in the folder of the paper, reproductions/<paper>/
DIGITS = 4
WIDE = 7.2  # inches of a wide figure: at 600 pixels its text is 11 pixels high
MOST = 64  # numbers of one curve in the JSON file


@dataclass(frozen=True)
class Drawn:
    """A figure as it was drawn."""

    figure: Any  # a `Figure` of matplotlib
    numbers: dict[str, Any]  # what is drawn, as plain data
    ours: str  # what ours shows, in one sentence
    holds: bool | None  # whether the claim of the paper holds in ours; None if it cannot be judged
    training_seconds: float = 0.0  # of all networks that it needs, also of those that an earlier figure trained


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper."""

    id: str
    """As in ernn/figure5."""
    caption: str
    """What is drawn, and what was smaller than in the paper."""
    paper: str
    """What the paper's figure shows, in one sentence."""
    draw: Callable[[int], Drawn]
    """Draws it, from a seed."""

    @property
    def name(self) -> str:
        """Its name in the paper: Figure 5."""
        return self.id.split("/")[1].replace("figure", "Figure ").replace("section", "Section ")


@dataclass(frozen=True, kw_only=True)
class FigureResult(Record):
    """The content of a figure's JSON file."""

    id: str
    name: str
    caption: str
    paper: str
    ours: str
    holds: bool | None
    seed: int
    seconds: float
    command: str
    numbers: dict[str, Any]


def draw_figure(one: PaperFigure, seed: int, results: Path) -> FigureResult:
    """Draw a figure and write it as SVG, PNG and JSON.

    Args:
        one: the figure.
        seed: of random matrices, data and trainings.
        results: the folder of the results; the files go to <paper>/figures/ in it.
    """
    from autapse.diagnostics.figures.base import new_figure, write_figure

    new_figure(1, 1)  # an error now, not after the training, if matplotlib is missing
    began = time.perf_counter()
    drawn = one.draw(seed)
    command = f"autapse reproduce {one.id}" + (f" --seed {seed}" if seed else "")
    content = FigureResult(
        id=one.id,
        name=one.name,
        caption=one.caption,
        paper=one.paper,
        ours=drawn.ours,
        holds=None if drawn.holds is None else bool(drawn.holds),
        seed=seed,
        seconds=round(max(time.perf_counter() - began, drawn.training_seconds), 1),
        command=command,
        numbers=drawn.numbers,
    )
    path = path_of(results, one.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_figure(path.with_suffix(".svg"), drawn.figure)
    write_figure(path.with_suffix(".png"), drawn.figure)
    files.write_json(path.with_suffix(".json"), content.to_json())
    return content


def path_of(results: Path, figure: str) -> Path:
    """Where the files of a figure are, without their endings."""
    paper, name = figure.split("/")
    return results / paper / FOLDER / name.replace(".", "-")


# Numbers -------------------------------------------------------------------------------------------------------------


def short(values: Any) -> list[float | None]:
    """An array with few digits, for JSON: at most `MOST` values, evenly spaced; null for values that are not finite."""
    flat = np.asarray(values, dtype=float).ravel()
    if len(flat) > MOST:
        flat = flat[np.linspace(0, len(flat) - 1, MOST).round().astype(int)]
    return [number(value) for value in flat]


def number(value: float) -> float | None:
    """A number with few digits; None if it is not finite."""
    return float(f"{float(value):.{DIGITS}g}") if math.isfinite(value) else None


# Trainings -----------------------------------------------------------------------------------------------------------


class Training(Loop):
    """A training in memory that keeps the weights after each epoch, first those before the training."""

    def __init__(self, config: RunConfig) -> None:
        from autapse.diagnostics.weights import WeightRecorder

        super().__init__(config)
        self.recorder = WeightRecorder(self.model)
        self.recorder.note()

    def _between_steps(self) -> None:
        if self.progress.step % self.feed.per_epoch == 0:
            self.recorder.note()

    def curve(self, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Epochs and values of one number of the history: loss or validation."""
        known = [(line["step"] / self.feed.per_epoch, line[key]) for line in self.history if line.get(key) is not None]
        epochs, values = zip(*known, strict=True)
        return np.array(epochs), np.array(values)


def trained(config: RunConfig) -> Training:
    """Train in memory, with one thread."""
    training = Training(config)
    training.run()
    training.model.eval()
    return training


def seconds_of(trainings: Iterable[Training]) -> float:
    """The time of several trainings."""
    return sum(one.progress.seconds for one in trainings)


def recipe_config(recipe: str, seed: int, **overrides: Any) -> RunConfig:
    """The settings of a recipe with other values; `training__epochs` is training.epochs."""
    from autapse.reproduce.recipe import find_recipe

    given = {name.replace("__", "."): value for name, value in overrides.items()}
    usual = {"training.seed": seed, "training.threads": 1, "training.stop_when_solved": False}
    return find_recipe(recipe).config(overrides={**usual, **given})


def binned(x: np.ndarray, y: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """The means of y in intervals of x."""
    place = np.ceil(x / width - 1e-9)
    groups = np.unique(place)
    return groups * width, np.array([y[place == group].mean() for group in groups])


def grid_of(figure: Any, count: int, across: int) -> Sequence[Any]:
    """Axes for `count` panels; those that are not needed are hidden."""
    rows = -(-count // across)
    axes = list(figure.subplots(rows, across, squeeze=False).flat)
    for one in axes[count:]:
        one.set_axis_off()
    return axes[:count]
