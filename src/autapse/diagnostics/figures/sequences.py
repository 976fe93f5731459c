"""Figures of sequences: series as lines, pen strokes as drawings, distributions of lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from autapse.diagnostics.figures.base import new_figure, write_figure
from autapse.tasks.strokes import COLUMNS, pen_lines

ACROSS = 10  # drawings in a row
MOST = 12  # series in one panel, so that they can be told apart


def is_pen(columns: Sequence[str]) -> bool:
    """Whether sequences are the way of a pen: columns dx, dy and pen up."""
    return tuple(columns) == COLUMNS


def plot_drawings(path: Path, drawings: Sequence[np.ndarray], titles: Sequence[str] = ()) -> None:
    """Draw pen strokes side by side.

    Args:
        path: the file, .svg or .png.
        drawings: [T, 3] each: dx, dy, and whether the pen is lifted after that point.
        titles: a title for each; empty for none.
    """
    across = min(ACROSS, len(drawings))
    rows = math.ceil(len(drawings) / across)
    figure = new_figure(1.1 * across, 1.2 * rows)
    every = figure.subplots(rows, across, squeeze=False)
    for axes in every.flat:
        axes.set_axis_off()
    for n, (axes, drawing) in enumerate(zip(every.flat, drawings, strict=False)):
        for line in pen_lines(drawing):
            axes.plot(*line.T, color="black", linewidth=1.2)
        axes.set_aspect("equal")
        if titles:
            axes.set_title(titles[n], fontsize="small")
    write_figure(path, figure)


def plot_series(path: Path, series: Sequence[np.ndarray], columns: Sequence[str]) -> None:
    """Draw series of values, one panel per column.

    Args:
        path: the file, .svg or .png.
        series: [T, D] each.
        columns: names of the D columns.
    """
    figure = new_figure(8, 1 + 1.8 * len(columns))
    for axes, column, name in zip(
        figure.subplots(len(columns), squeeze=False)[:, 0], range(len(columns)), columns, strict=True
    ):
        for one in series[:MOST]:
            axes.plot(one[:, column], linewidth=1)
        axes.set_ylabel(name)
        axes.grid(alpha=0.3)
    axes.set_xlabel("step")
    write_figure(path, figure)


def plot_lengths(path: Path, true: np.ndarray, generated: Mapping[str, np.ndarray]) -> None:
    """Draw distributions of lengths as bars, each beside the true one.

    Args:
        path: the file, .svg or .png.
        true: [longest] the probability of the lengths 1, 2, …
        generated: the same for generated sequences, by name.
    """
    figure = new_figure(3 * len(generated), 2.6)
    every = figure.subplots(1, len(generated), sharey=True, squeeze=False)
    for axes, (name, shares) in zip(every.flat, generated.items(), strict=True):
        steps = np.arange(1, len(true) + 1)
        axes.bar(steps, true, width=0.9, color="lightgray", label="true")
        axes.bar(steps, shares, width=0.45, color="tab:blue", label="generated")
        distance = 0.5 * float(np.abs(shares - true).sum())
        axes.set(title=f"{name}: distance {distance:.3f}", xlabel="length")
    figure.axes[0].set_ylabel("share of sequences")
    figure.axes[0].legend(fontsize="small")
    write_figure(path, figure)
