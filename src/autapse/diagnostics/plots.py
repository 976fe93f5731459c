"""Figures of learning curves, forecasts and memories."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autapse import checks, files

if TYPE_CHECKING:
    from autapse.diagnostics.memory import MemoryTrace

PANELS_IN_A_ROW = 3


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
    figure = _figure(8, 4.5)
    axes = figure.subplots()
    positive = any(score > 0 for points in curves.values() for _, score in points)
    _draw(axes, Panel(title, "steps", ylabel, positive, curves))
    for (name, value), style in zip(lines.items(), ("--", ":"), strict=False):
        axes.axhline(value, linestyle=style, color="gray", label=f"{name} ({value:.3g})")
    axes.legend(fontsize="small")
    files.write_bytes(path, _saved(figure, format="png", dpi=150))


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
    figure = _figure(9, 3.2 * len(forecasts))
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
    files.write_bytes(path, _saved(figure, format="png", dpi=150))


def draw_memory(trace: MemoryTrace, sequence: int = 0, axes: Sequence[Any] | None = None) -> Any:
    """Draw the memory of one sequence over time: where heads write and read, and what is stored.

    Args:
        trace: from `autapse.diagnostics.memory.memory_trace`.
        sequence: which sequence of the trace.
        axes: matplotlib's axes to draw on, one per panel: one for each write head, one for each read head, one for the
            length of each slot's vector, and one for the vectors after the last step. None: a new figure.

    Returns:
        The figure.
    """
    one = trace.one(sequence)
    memory, read, write = one.memory[:, 0], one.read[:, 0], one.write[:, 0]
    panels = [(f"write head {n + 1}", write[:, n].T, "Reds") for n in range(write.shape[1])]
    panels += [(f"read head {n + 1}", read[:, n].T, "Blues") for n in range(read.shape[1])]
    panels.append(("length of each vector", (memory**2).sum(-1).T ** 0.5, "Greys"))
    panels.append(("vectors at the end", memory[-1], "RdBu"))
    if axes is None:
        figure = _figure(3.2 * len(panels), 3.4)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
    if len(axes) != len(panels):
        checks.fail("axes", f"have one entry per panel, {len(panels)} in all", len(axes))
    for place, (title, values, colours) in zip(axes, panels, strict=True):
        signed = colours == "RdBu"
        largest = max(1.0, float(abs(values).max()))
        place.imshow(values, aspect="auto", interpolation="nearest", cmap=colours, vmin=-largest * signed, vmax=largest)
        place.set(title=title, xlabel="place in the vector" if signed else "step", ylabel="slot")
    return axes[0].figure


def draw_svg(panels: Sequence[Panel]) -> bytes:
    """Draw panels side by side.

    Args:
        panels: what to draw.

    Returns:
        The SVG file. The same panels and the same matplotlib give the same bytes.
    """
    columns = min(len(panels), PANELS_IN_A_ROW) if len(panels) != 4 else 2
    rows = -(-len(panels) // columns)
    figure = _figure(max(4.2 * columns, 6), 3.2 * rows)
    every = figure.subplots(rows, columns, squeeze=False).flat
    for axes, panel in zip(every, panels, strict=False):
        _draw(axes, panel)
        if panel.curves:
            axes.legend(fontsize="small")
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "autapse", "svg.fonttype": "none"}):
        return _saved(figure, format="svg", metadata={"Date": None})


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise checks.InputError("Plots need matplotlib: pip install 'autapse[plots]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def _draw(axes: Any, panel: Panel) -> None:
    for name, points in panel.curves.items():
        axes.plot([x for x, _ in points], [y for _, y in points], label=name)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel, title=panel.title, yscale="log" if panel.log else "linear")
    axes.grid(alpha=0.3, which="both")


def _saved(figure: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()
