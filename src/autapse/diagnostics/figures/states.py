"""Figures of states over time: estimation, gates, lesions, discrimination, weights, units, implicit solves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from autapse.diagnostics.figures.base import SMALLEST, axes_or_new, band, curve, draws, finish, matrix, spread

if TYPE_CHECKING:
    from autapse.diagnostics.classes import Discrimination
    from autapse.diagnostics.estimation import IterativeEstimation
    from autapse.diagnostics.gates import DualGates
    from autapse.diagnostics.implicit import ImplicitSolves, ImplicitSpread
    from autapse.diagnostics.lesions import Lesion
    from autapse.diagnostics.units import Saturation
    from autapse.diagnostics.weights import WeightDistance


@draws("iterative_estimation")
def draw_estimation(estimation: IterativeEstimation, axes: Any = None, label: str = "", change: bool = False) -> Any:
    """Draw the average estimation error over the steps, with a band of one standard deviation.

    Args:
        estimation: from `iterative_estimation`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.
        change: h_t − h_{t−1} (equation 3) instead of h_t − h_T (equation 1).

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    mean, variance = (
        (estimation.change, estimation.change_variance) if change else (estimation.to_end, estimation.to_end_variance)
    )
    steps, deviation = np.arange(1, len(mean) + 1), np.sqrt(variance)
    band(axes, steps, mean - deviation, mean + deviation, curve(axes, steps, mean, label))
    axes.axhline(0, color="gray", linestyle="--", linewidth=1)
    return finish(axes, "step", "mean of h_t − h_{t−1}" if change else "mean of h_t − h_T")


@draws("dual_gates")
def draw_gates(gates: DualGates, axes: Any = None, label: str = "") -> Any:
    """Draw the transform and the carry gates over the steps (means over sequences and units), and the contributions.

    Args:
        gates: from `dual_gates`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend, before that of the line.

    Returns:
        The axes. The contribution of a step is its share in the last state, as a part of the largest one.
    """
    axes = axes_or_new(axes)
    exists = np.arange(len(gates.carry))[:, None] < gates.lengths
    count, steps = np.maximum(exists.sum(1), 1), np.arange(1, len(gates.carry) + 1)
    share = (gates.share * gates.lengths).sum(1) / count
    share = share / max(share.max(), SMALLEST)
    lines = {"transform": gates.transform.mean(2).sum(1) / count, "carry": gates.carry.mean(2).sum(1) / count}
    for name, values in (lines | {"contribution": share}).items():
        curve(axes, steps, values, f"{label} {name}".strip(), linestyle="--" if name == "contribution" else "-")
    return finish(axes, "step", "mean gate; contribution of the step")


@draws("lesion")
def draw_lesion(lesions: Lesion, axes: Any = None, label: str = "", score: str = "score") -> Any:
    """Draw the score of a network over the step that is left out or exchanged, with the score of the intact one.

    Args:
        lesions: from `lesion`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.
        score: what the score is.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    colour = curve(axes, lesions.steps + 1, lesions.score, label, marker=".")
    axes.plot(lesions.steps[[0, -1]] + 1, [lesions.intact] * 2, color=colour, linestyle="--", linewidth=1)
    return finish(axes, "step that is changed", score)


@draws("discrimination")
def draw_discrimination(discrimination: Discrimination, axes: Any = None, label: str = "") -> Any:
    """Draw the ratio of the distances within and between classes over the steps.

    Args:
        discrimination: from `discrimination`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    curve(axes, np.arange(1, len(discrimination.ratio) + 1), discrimination.ratio, label)
    axes.axhline(1, color="gray", linestyle="--", linewidth=1)
    return finish(axes, "step", "distance within / between classes")


@draws("weight_distance")
def draw_weight_distance(distances: WeightDistance, axes: Any = None, label: str = "") -> Any:
    """Draw the distance of the weights to the last ones over the records.

    Args:
        distances: from `weight_distance`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    curve(axes, np.arange(len(distances.distance)), distances.distance, label, marker=".")
    return finish(axes, "record (epoch)", "distance to the last weights")


@draws("saturation")
def draw_saturation(saturation: Saturation, axes: Any = None) -> Any:
    """Draw the shares of flat activations and of open and closed gates over the units, in order of their size.

    Args:
        saturation: from `saturation`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.

    Returns:
        The axes. Without shares, the standard deviation of each unit.
    """
    axes = axes_or_new(axes)
    named = {"activation is flat": saturation.flat}
    named |= {"carry gate open": saturation.carry_open, "carry gate closed": saturation.carry_closed}
    known = {name: values for name, values in named.items() if values is not None}
    for name, values in (known or {"standard deviation": saturation.deviation}).items():
        curve(axes, np.arange(1, len(values) + 1), np.sort(values)[::-1], name)
    title = f"{int(saturation.dead.sum())} of {len(saturation.dead)} units are dead"
    return finish(axes, "unit, in order", "share of steps" if known else "standard deviation", title=title)


@draws("implicit_solves")
def draw_solves(solves: ImplicitSolves, axes: Any = None) -> Any:
    """Draw the convergence of each solver: the median residual over the iterations, with a band of 80 %.

    Args:
        solves: from `implicit_solves`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.

    Returns:
        The axes. The legend has the mean number of evaluations.
    """
    axes = axes_or_new(axes)
    some = solves.lengths > 0
    for name, residual, evaluations in zip(
        solves.solvers, solves.residual[:, :, some], solves.evaluations[:, some], strict=True
    ):
        known = np.isfinite(residual).all(1)
        shown = f"{name} ({evaluations.mean():.3g} evaluations)"
        spread(axes, np.flatnonzero(known), np.maximum(residual[known], SMALLEST), shown)
    return finish(axes, "iteration", "relative residual", log=True)


@draws("implicit_spread")
def draw_spread(effect: ImplicitSpread, axes: Any = None, label: str = "") -> Any:
    """Draw the effect of a change of one input on the outputs to its left and right.

    Args:
        effect: from `implicit_spread`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    values = np.where(effect.typical > 0, effect.typical, np.nan)
    curve(axes, effect.offset, values, label)
    axes.axvline(0, color="gray", linestyle="--", linewidth=1)
    return finish(axes, "offset from the changed input (steps)", "change of the output", log=True)


def draw_units(units: np.ndarray, axes: Any = None, title: str = "") -> Any:
    """Draw a value of each unit at each step as colours, [T, H], blue below 0 and red above.

    Args:
        units: such as `to_end_units` of `iterative_estimation`, or one sequence of a `Trajectory`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        title: above the picture.

    Returns:
        The axes.
    """
    values = matrix("units", units)
    axes = axes_or_new(axes)
    largest = max(float(np.nanmax(np.abs(values))), SMALLEST)
    image = axes.imshow(values.T, aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
    axes.figure.colorbar(image, ax=axes)
    axes.set(xlabel="step", ylabel="unit", title=title)
    return axes
