"""Figures of learning curves, forecasts, attention and memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autapse import checks, files
from autapse.diagnostics.figures.base import axes_or_new, draws, each_of_kind, matrix, new_figure, saved, svg

if TYPE_CHECKING:
    from autapse.diagnostics.memory import MemoryTrace

PANELS_IN_A_ROW = 3
LABELLED = 80  # symbols on an axis that are still readable


@dataclass(frozen=True)
class Panel:
    """One coordinate system with its curves."""

    title: str  # above the panel; may be empty
    xlabel: str  # below the x axis
    ylabel: str  # beside the y axis
    log: bool  # whether the y axis is logarithmic
    curves: Mapping[str, Sequence[tuple[float, float]]]  # the points (x, y) of each curve, by name


def plot_curves(
    path: Path,
    curves: Mapping[str, Sequence[tuple[int, float]]],
    lines: Mapping[str, float],
    ylabel: str,
    title: str,
) -> None:
    """Draw scores over steps on a logarithmic scale, as a PNG file.

    Args:
        path: the file.
        curves: (step, score) of each network.
        lines: scores to compare with, by name.
        ylabel: what the scores are.
        title: of the figure.
    """
    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    positive = any(score > 0 for points in curves.values() for _, score in points)
    _draw(axes, Panel(title, "steps", ylabel, positive, curves))
    for (name, value), style in zip(lines.items(), ("--", ":"), strict=False):
        axes.axhline(value, linestyle=style, color="gray", label=f"{name} ({value:.3g})")
    axes.legend(fontsize="small")
    files.write_bytes(path, saved(figure, format="png", dpi=150))


@dataclass(frozen=True)
class ForecastPanel:
    """One forecast with what really happened."""

    title: str  # above the panel
    first: int  # the step of the first value
    origin: int  # the last step before the forecast
    values: Sequence[float]  # the series, before and after the origin
    forecast: Sequence[float]  # the values of the forecast
    limits: Sequence[Sequence[float]] = ()  # the lower and the upper limit of a prediction interval
    interval: str = ""  # what the interval is


def plot_forecasts(path: Path, forecasts: Sequence[ForecastPanel]) -> None:
    """Draw forecasts below one another, as a PNG file.

    Args:
        path: the file.
        forecasts: what to draw.
    """
    each_of_kind("forecasts", forecasts, ForecastPanel)
    figure = new_figure(9, 3.2 * len(forecasts))
    for axes, one in zip(figure.subplots(len(forecasts), 1, squeeze=False).flat, forecasts, strict=True):
        ahead = [one.origin + 1 + n for n in range(len(one.forecast))]
        axes.plot([one.first + n for n in range(len(one.values))], one.values, color="black", label="series")
        axes.plot(ahead, one.forecast, color="tab:blue", label="forecast")
        if one.limits:
            axes.fill_between(ahead, *one.limits, color="tab:blue", alpha=0.2, linewidth=0, label=one.interval)
        axes.axvline(one.origin, linestyle=":", color="gray")
        axes.set(title=one.title, xlabel="steps")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="upper left")
    files.write_bytes(path, saved(figure, format="png", dpi=150))


@dataclass(frozen=True)
class AttentionPanel:
    """The weights of an attention for one pair of sequences."""

    weights: Sequence[Sequence[float]]  # [T_y, T_x]
    source: Sequence[str]  # the symbols that were read
    target: Sequence[str]  # the symbols that were written


def draw_attention(
    weights: Any, source: Sequence[str] = (), target: Sequence[str] = (), axes: Any = None, title: str = ""
) -> Any:
    """Draw how much of each symbol of a source is read for each symbol of a target.

    Args:
        weights: [T_y, T_x], from `model.attention_weights`.
        source: the symbols that were read, for the x axis; without them there are numbers.
        target: the symbols that were written, for the y axis.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        title: above the picture.

    Returns:
        The axes; `axes.figure.savefig(path)` writes the picture.

    >>> axes = draw_attention([[0.9, 0.1], [0.2, 0.8]], source="ab", target="ba")
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['b', 'a']
    """
    rows = matrix("weights", weights)
    columns = rows.shape[1]
    for name, symbols, count in (("source", source, columns), ("target", target, len(rows))):
        if len(symbols) not in (0, count):
            checks.fail(name, f"have one symbol per {'column' if name == 'source' else 'row'}, {count}", len(symbols))
    axes = axes_or_new(axes, 1.5 + 0.22 * max(columns, 8), 1.2 + 0.22 * max(len(rows), 6))
    axes.imshow(rows, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for axis, symbols in ((axes.xaxis, source), (axes.yaxis, target)):
        if 0 < len(symbols) <= LABELLED:
            long = axis is axes.xaxis and max(map(len, symbols)) > 1
            shown = ["␣" if symbol == " " else symbol for symbol in symbols]
            axis.set_ticks(range(len(symbols)), shown, fontsize="small", rotation=60 if long else 0)
    axes.set(xlabel="read", ylabel="written", title=title)
    return axes


def plot_attention(path: Path, panels: Sequence[AttentionPanel]) -> None:
    """Draw the attention of several pairs below one another, as a PNG file.

    Args:
        path: the file.
        panels: what to draw.
    """
    each_of_kind("panels", panels, AttentionPanel)
    longest = max(len(panel.source) for panel in panels)
    heights = [1.5 + 0.22 * len(panel.target) for panel in panels]
    figure = new_figure(min(2 + 0.22 * longest, 20), min(sum(heights), 30))
    every = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights).flat
    for axes, panel in zip(every, panels, strict=True):
        draw_attention(panel.weights, panel.source, panel.target, axes)
    files.write_bytes(path, saved(figure, format="png", dpi=150))


@draws("memory_trace")
def draw_memory(trace: MemoryTrace, sequence: int = 0, axes: Sequence[Any] | None = None) -> Any:
    """Draw the memory of one sequence over time: where heads write and read, and what is stored.

    Args:
        trace: from `memory_trace`.
        sequence: which sequence of the trace.
        axes: matplotlib's axes to draw on, one per panel: one for each write head, one for each read head, one for the
            length of each slot's vector, and one for the vectors after the last step. None: a new figure.

    Returns:
        The figure.
    """
    one = trace.one(sequence)
    if not len(one.memory):
        checks.fail("sequence", "have at least one step", sequence)
    memory, read, write = one.memory[:, 0], one.read[:, 0], one.write[:, 0]
    panels = [(f"write head {n + 1}", write[:, n].T, "Reds") for n in range(write.shape[1])]
    panels += [(f"read head {n + 1}", read[:, n].T, "Blues") for n in range(read.shape[1])]
    panels.append(("length of each vector", (memory**2).sum(-1).T ** 0.5, "Greys"))
    panels.append(("vectors at the end", memory[-1], "RdBu"))
    if axes is None:
        figure = new_figure(3.2 * len(panels), 3.4)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
    places = list(map(axes_or_new, np.ravel(axes)))
    if len(places) != len(panels):
        checks.fail("axes", f"have one entry per panel, {len(panels)} in all", len(places))
    for place, (title, values, colours) in zip(places, panels, strict=True):
        signed = colours == "RdBu"
        largest = max(1.0, float(abs(values).max()))
        place.imshow(values, aspect="auto", interpolation="nearest", cmap=colours, vmin=-largest * signed, vmax=largest)
        place.set(title=title, xlabel="place in the vector" if signed else "step", ylabel="slot")
    return places[0].figure


def draw_svg(panels: Sequence[Panel]) -> bytes:
    """Draw panels side by side.

    Args:
        panels: what to draw.

    Returns:
        The SVG file. The same panels and the same matplotlib give the same bytes.
    """
    each_of_kind("panels", panels, Panel)
    columns = min(len(panels), PANELS_IN_A_ROW) if len(panels) != 4 else 2
    rows = -(-len(panels) // columns)
    figure = new_figure(max(4.2 * columns, 6), 3.2 * rows)
    every = figure.subplots(rows, columns, squeeze=False).flat
    for axes, panel in zip(every, panels, strict=False):
        _draw(axes, panel)
        if panel.curves:
            axes.legend(fontsize="small")
    return svg(figure)


def _draw(axes: Any, panel: Panel) -> None:
    for name, points in panel.curves.items():
        axes.plot([x for x, _ in points], [y for _, y in points], label=name)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel, title=panel.title, yscale="log" if panel.log else "linear")
    axes.grid(alpha=0.3, which="both")
