"""What all figures share: an empty figure, colours that everybody can tell apart, curves and bands."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from autapse import checks, diagnostics, files

# Okabe and Ito's colours, without yellow, which is too light for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
PATH, FINE = re.compile(rb' d="[^"]*"'), re.compile(rb"(\.\d\d)\d+")  # a hundredth of a point is fine enough
SMALLEST = 1e-300  # for zeros on a logarithmic axis
DECADES = 1e-16  # a logarithmic axis ends at this part of the largest value


P = ParamSpec("P")
R = TypeVar("R")


def draws(probe: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function that draws the result of a probe, its first argument. Other objects are input errors."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        argument, kind = next(iter(function.__annotations__.items()))

        @functools.wraps(function)
        def checked(*args: P.args, **named: P.kwargs) -> R:
            if args or argument in named:
                value, remedy = args[0] if args else named[argument], f"Pass the result of {probe}."
                of_kind(argument, value, getattr(diagnostics, kind), remedy)
            return function(*args, **named)

        return checked

    return decorate


def of_kind(argument: str, value: Any, kind: type, remedy: str) -> None:
    """Raise an error if `value` is not a `kind`."""
    if not isinstance(value, kind):
        checks.fail(argument, f"be of type {kind.__name__}", type(value).__name__, remedy, checks.KindError)


def each_of_kind(argument: str, values: Any, kind: type) -> None:
    """Raise an error if `values` is not a list with at least one `kind`, and nothing else."""
    remedy = f"Pass a list of {kind.__name__}."
    for value in values if isinstance(values, Sequence) and len(values) else [values]:
        of_kind(argument, value, kind, remedy)
    of_kind(argument, values, Sequence, remedy)


def matrix(argument: str, values: Any) -> np.ndarray:
    """Numbers in rows and columns, as an array."""
    try:
        array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or not array.size:
        got = tuple(array.shape) if array.size else type(values).__name__
        checks.fail(argument, "have numbers in rows and columns", got)
    return array


def new_figure(width: float, height: float) -> Any:
    """An empty figure.

    Args:
        width: in inches.
        height: in inches.

    Returns:
        A `Figure` of matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise checks.InputError("Plots need matplotlib: pip install 'autapse[plots]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def saved(figure: Any, **options: Any) -> bytes:
    """The content of a file with a figure.

    Args:
        figure: the figure.
        options: those of matplotlib's `savefig`, such as `format`.

    Returns:
        The bytes of the file.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


def write_figure(path: Path, figure: Any) -> None:
    """Write a figure, as .svg or .png by the name of the file. The same figure gives the same bytes."""
    kind = path.suffix.removeprefix(".")
    files.write_bytes(path, svg(figure) if kind == "svg" else saved(figure, format=kind, dpi=150))


def svg(figure: Any) -> bytes:
    """The content of an SVG file with text as text. The same figure and the same matplotlib give the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "autapse", "svg.fonttype": "none"}):
        content = saved(figure, format="svg", metadata={"Date": None})
    return PATH.sub(lambda path: FINE.sub(rb"\1", path[0]), content)


def axes_or_new(axes: Any, width: float = 5.0, height: float = 3.4) -> Any:
    """The given axes, or those of a new figure."""
    if axes is None:
        return new_figure(width, height).subplots()
    from matplotlib.axes import Axes

    of_kind("axes", axes, Axes, "Pass axes of matplotlib; if you have several, one of them, as in axes[0].")
    return axes


def finish(axes: Any, xlabel: str, ylabel: str, log: bool = False, title: str = "") -> Any:
    """Label axes; a legend if something has a name. The y axis is logarithmic only if there is something above 0."""
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if title:
        axes.set_title(title)
    known = [np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()]
    largest = max((float(y[np.isfinite(y)].max(initial=0)) for y in known), default=0)
    if log and largest > 0:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if low < DECADES * largest or high > 100 * largest:  # fixed limits would cut later curves off
            axes.set_ylim(max(low, DECADES * largest), min(high, 100 * largest))
    ticks = axes.xaxis.get_major_locator()
    if type(ticks).__name__ == "AutoLocator" and axes.get_lines() and all(map(_counts, axes.get_lines())):
        ticks.set_params(integer=True)  # of steps, lags or epochs
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        for handle in axes.legend(fontsize="small").legend_handles:
            handle.set_alpha(1)  # of pale points too
    return axes


def _counts(line: Any) -> bool:
    """Whether a line is over whole numbers; a horizontal or vertical line may be over anything."""
    x = np.asarray(line.get_xdata(), dtype=float)
    return len(x) <= 2 or bool(np.all(x == np.round(x)))


def curve(axes: Any, x: Any, y: Any, label: str = "", **style: Any) -> str:
    """Draw a line in the next colour, and return the colour. Names of lines are kept for the legend."""
    used = [line.get_color() for line in axes.get_lines()]
    free = [colour for colour in COLOURS if colour not in used] or COLOURS
    colour = style.pop("color", free[0])
    axes.plot(x, y, color=colour, label=label or None, **style)
    return colour


def band(axes: Any, x: Any, low: Any, high: Any, colour: str) -> None:
    """Shade the area between two curves."""
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)


def quantiles(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # [n, B] -> [n] each
    """The median over the sequences and the quantiles 0.1 and 0.9, without NaN."""
    if not values.size:
        return (np.empty(0),) * 3
    low, middle, high = np.nanquantile(values, (0.1, 0.5, 0.9), axis=1)
    return middle, low, high


def spread(axes: Any, x: Any, values: np.ndarray, label: str = "") -> None:
    """The median over the sequences [n, B], with a band of 80 % of them."""
    middle, low, high = quantiles(values)
    band(axes, x, low, high, curve(axes, x, middle, label))


def unit_circle(axes: Any) -> None:
    """The circle |λ| = 1, in gray."""
    angle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(angle), np.sin(angle), color="gray", linewidth=1, linestyle="--")
    axes.set_aspect("equal", adjustable="datalim")


def points(axes: Any, values: np.ndarray, label: str = "", **style: Any) -> None:
    """Complex numbers as points of the plane, in the next colour of points."""
    colour = COLOURS[len(axes.collections) % len(COLOURS)]
    options = {"s": 10, "color": colour, "linewidths": 0} | style
    axes.scatter(values.real, values.imag, label=label or None, **options)
