"""The papers' learning curves, from our results: the values of each picture, and whether a picture is up to date."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from autapse import checks, files
from autapse.diagnostics.plots import Panel, draw_svg
from autapse.reproduce.curve import Curve
from autapse.reproduce.result import Results

FOLDER = "figures"
VALUES = ("loss", "validation")


@dataclass(frozen=True, kw_only=True)
class CurveOf:
    label: str
    recipe: str


@dataclass(frozen=True, kw_only=True)
class PanelOf:
    value: str
    """loss, of training, or validation, the score on validation data."""
    curves: tuple[CurveOf, ...]
    title: str = ""
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a paper, as `paper.toml` has it."""

    name: str
    file: str
    caption: str
    panel: tuple[PanelOf, ...]


@dataclass(frozen=True)
class Picture:
    """A figure with the numbers that are drawn."""

    figure: Figure
    panels: tuple[Panel, ...]

    @property
    def markdown(self) -> str:
        drawn = dict.fromkeys(label for panel in self.panels for label in panel.curves)
        text = f"{self.figure.name}: {self.figure.caption}. Drawn: {', '.join(drawn)}."
        return f"![{text}]({FOLDER}/{self.figure.file})\n\n*{self.figure.name} of the paper: {self.figure.caption}.*"

    @property
    def mark(self) -> str:
        """A comment at the end of the picture with a checksum of the drawn values."""
        content = json.dumps([asdict(panel) for panel in self.panels], sort_keys=True)
        return f"<!-- drawn from {hashlib.sha256(content.encode()).hexdigest()[:16]} -->\n"

    def is_up_to_date(self, folder: Path) -> bool:
        path = folder / self.figure.file
        return path.is_file() and path.read_text(encoding="utf-8").endswith(self.mark)

    def draw(self, folder: Path) -> None:
        """Write the picture; an error of one line without matplotlib."""
        folder.mkdir(parents=True, exist_ok=True)
        files.write_bytes(folder / self.figure.file, draw_svg(self.panels) + self.mark.encode())


def picture_of(figure: Figure, paper: str, results: Results, source: Path) -> Picture | None:
    """The picture of a figure; None if no result has a curve for it."""
    for wanted in figure.panel:
        checks.one_of(f"{source}: value", wanted.value, VALUES)
    panels = tuple(_panel(wanted, paper, results) for wanted in figure.panel)
    return Picture(figure, panels) if any(panel.curves for panel in panels) else None


def _panel(wanted: PanelOf, paper: str, results: Results) -> Panel:
    curves, ylabel = {}, "training loss"
    for one in wanted.curves:
        for result in results.get(f"{paper}/{one.recipe}", [])[:1]:  # one seed
            if result.curve:
                curves[one.label] = _points(result.curve, wanted.value, result.unit)
                if wanted.value == "validation":
                    ylabel = "accuracy, %" if result.unit == "accuracy" else result.metric
    return Panel(wanted.title, "epochs", ylabel, wanted.log, curves)


def _points(curve: Curve, value: str, unit: str) -> tuple[tuple[float, float], ...]:
    """(epoch, number), where there is a number; error rates as accuracies where the paper has accuracies."""
    numbers = curve.loss if value == "loss" else curve.validation
    known = [(epoch, number) for epoch, number in zip(curve.epoch, numbers, strict=True) if number is not None]
    percent = value == "validation" and unit == "accuracy"
    return tuple((epoch, round(100 * (1 - number), 4) if percent else number) for epoch, number in known)
