"""Numbers to figures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from autapse import checks, files


def plot_curves(
    path: Path,
    curves: Mapping[str, Sequence[tuple[int, float]]],  # (step, score) of each network
    lines: Mapping[str, float],  # scores to compare with
    ylabel: str,
    title: str,
) -> None:
    """Scores over steps on a logarithmic scale, as a PNG."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise checks.InputError("Plots need matplotlib: pip install 'autapse[plots]'") from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, points in curves.items():
        axes.plot([step for step, _ in points], [score for _, score in points], label=name)
    for (name, value), style in zip(lines.items(), ("--", ":"), strict=False):
        axes.axhline(value, linestyle=style, color="gray", label=f"{name} ({value:.3g})")
    positive = any(score > 0 for points in curves.values() for _, score in points)
    axes.set(xlabel="steps", ylabel=ylabel, title=title, yscale="log" if positive else "linear")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    files.write_bytes(path, buffer.getvalue())
