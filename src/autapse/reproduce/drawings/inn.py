"""The paper on implicitly-defined networks: run time against length, with the fits of its section 4."""

from __future__ import annotations

from typing import Any

import numpy as np

from autapse import files
from autapse.diagnostics.figures.base import COLOURS
from autapse.diagnostics.plots import new_figure
from autapse.reproduce.drawings.base import WIDE, Drawn, PaperFigure
from autapse.reproduce.recipe import recipes_root

PAPER = 1.8  # exponent for b = 0.5


def section_4(seed: int) -> Drawn:
    """The stored times of runtime.py, on logarithmic axes, with their power laws."""
    facts = files.read_json(recipes_root() / "inn" / "results" / "runtime.json")
    figure = new_figure(WIDE, 3.4)
    biases = list(dict.fromkeys(row["bias"] for row in facts["rows"]))
    for axes, who in zip(figure.subplots(1, 2, sharey=True), ("paper", "ours"), strict=True):
        for n, bias in enumerate(biases):
            _draw(axes, facts, who, bias, COLOURS[n])
        axes.set(
            xlabel="steps n", xscale="log", yscale="log", title=f"{'the paper’s' if who == 'paper' else 'our'} solver"
        )
        axes.set_xticks([5, 10, 20, 40], ["5", "10", "20", "40"])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.axes[0].set_ylabel(f"seconds for {facts['batch']} sequences")
    slow = [row["paper_seconds"] / row["ours_seconds"] for row in facts["rows"]]
    exponents = {(fit["who"], fit["bias"]): fit["exponent"] for fit in facts["fits"]}
    theirs, mine = ([exponents[who, bias] for bias in biases] for who in ("paper", "ours"))
    newton = max(row["paper_newton"] for row in facts["rows"])
    same = max(theirs) - min(theirs) < 0.3
    ours = (
        f"With the paper's solver the exponent is {exponents['paper', 0.5]:.2f} for b = 0.5, but {min(theirs):.2f} to "
        f"{max(theirs):.2f} over b, and it takes up to {newton:.0f} Newton iterations, its limit. Our "
        "solver's exponents "
        f"are {min(mine):.2f} to {max(mine):.2f}; it is {min(slow):.0f} to {max(slow):.0f} times faster."
    )
    holds = abs(exponents["paper", 0.5] - PAPER) < 0.2 and same and newton <= 10
    return Drawn(figure, {"rows": facts["rows"], "fits": facts["fits"]}, ours, holds)


def _draw(axes: Any, facts: dict[str, Any], who: str, bias: float, colour: str) -> None:
    rows = [row for row in facts["rows"] if row["bias"] == bias]
    fit = next(fit for fit in facts["fits"] if fit["bias"] == bias and fit["who"] == who)
    n = np.array([row["length"] for row in rows], dtype=float)
    axes.plot(n, [row[f"{who}_seconds"] for row in rows], "o", color=colour, markersize=5)
    label = f"b = {bias:g}: {fit['factor']:.2g}·n^{fit['exponent']:.2f}"
    axes.plot(n, fit["factor"] * n ** fit["exponent"], color=colour, linewidth=1.2, label=label)


FIGURES = (
    PaperFigure(
        "inn/section4",
        "Time of the solve of a batch of 20 walks against their length, with power laws. The paper has a "
        "table and fits, no "
        "figure. Drawn from the stored times of reproductions/inn/runtime.py, one thread.",
        "For b = 0.5 a batch takes 0.17·n^1.8 seconds; other b take the same time, and at most 10 Newton "
        "iterations are "
        "needed on average.",
        section_4,
    ),
)
