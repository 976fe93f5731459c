"""Figures of dynamics: phase portraits, fixed points, differential equations, equilibria."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from autapse.diagnostics.figures.base import (
    COLOURS,
    SMALLEST,
    axes_or_new,
    curve,
    draws,
    finish,
    points,
    spread,
    unit_circle,
)

if TYPE_CHECKING:
    from autapse.diagnostics.attractors import FixedPoints
    from autapse.diagnostics.equilibria import Alignment, InnerResiduals, LearnedRates, PhiCurve
    from autapse.diagnostics.odes import ConvergenceOrder, Sensitivity
    from autapse.diagnostics.phase import PhasePortrait

MARKERS = {"attractor": "o", "saddle": "x", "repeller": "^"}


@draws("phase_portrait")
def draw_phase(portrait: PhasePortrait, axes: Any = None, title: str = "") -> Any:
    """Draw trajectories over arrows. Stars are the starts; later states are darker, as in the AntisymmetricRNN paper.

    Args:
        portrait: from `phase_portrait`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        title: above the picture.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes, 4.0, 4.0)
    x, y = portrait.grid[..., 0], portrait.grid[..., 1]
    axes.quiver(x, y, portrait.arrows[..., 0], portrait.arrows[..., 1], color="gray", alpha=0.6, width=0.004)
    shades = np.linspace(0.15, 1.0, len(portrait.paths))
    for n in range(portrait.paths.shape[1]):
        path, colour = portrait.paths[:, n], COLOURS[n % len(COLOURS)]
        axes.plot(*path.T, color=colour, linewidth=0.8, alpha=0.5)
        axes.scatter(*path.T, color=colour, alpha=shades, s=9, linewidths=0)
        axes.scatter(*path[0], color=colour, marker="*", s=80, zorder=3)
    edge = 1.05 * float(np.abs(portrait.grid).max())
    axes.set(xlim=(-edge, edge), ylim=(-edge, edge), aspect="equal")
    xlabel, ylabel = (_axis(name, share) for name, share in zip(portrait.axes, portrait.explained, strict=True))
    return finish(axes, xlabel, ylabel, title=title)


def _axis(name: str, share: float) -> str:
    return f"{name} ({share:.0%} of the variance)" if name.startswith("component") else name


@draws("fixed_points")
def draw_fixed_points(states: FixedPoints, axes: Any = None) -> Any:
    """Draw the eigenvalues of each fixed and slow point, with the circle |λ| = 1.

    Args:
        states: from `fixed_points`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.

    Returns:
        The axes. The legend has the kind of each point, its speed, and the share of starts that ended there.
    """
    axes = axes_or_new(axes, 4.6, 4.0)
    for values, kind, speed, count in zip(states.eigenvalues, states.kinds, states.speed, states.counts, strict=True):
        name = f"{kind}, {count / states.starts:.0%}, speed {speed:.0e}"
        points(axes, values, name, marker=MARKERS[kind], s=18, linewidths=1)
    unit_circle(axes)
    return finish(axes, "real part", "imaginary part", title="eigenvalues at fixed and slow points")


@draws("sensitivity")
def draw_sensitivity(sensitivity: Sensitivity, axes: Any = None, label: str = "") -> Any:
    """Draw the size of ∂h(t)/∂h(0) over time, beside that of e^{J·t}.

    Args:
        sensitivity: from `sensitivity`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend, before that of the line.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    spread(axes, sensitivity.times, np.maximum(sensitivity.measured, SMALLEST), f"{label} measured".strip())
    spread(axes, sensitivity.times, np.maximum(sensitivity.exponential, SMALLEST), f"{label} e^(J·t)".strip())
    return finish(axes, "time t = n·ε", "size of ∂h(t)/∂h(0)", log=True)


@draws("convergence_order")
def draw_convergence(convergence: ConvergenceOrder, axes: Any = None, label: str = "") -> Any:
    """Draw the error of a network over its step size, on logarithmic axes.

    Args:
        convergence: from `convergence_order`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend, before the order.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    mean = np.exp(np.log(np.maximum(convergence.errors, SMALLEST)).mean(1))
    curve(axes, convergence.steps, mean, f"{label} order {convergence.order:.2f}".strip(), marker="o", markersize=4)
    axes.set_xscale("log")
    return finish(axes, "step size ε", "error", log=True)


@draws("phi_curve")
def draw_phi(phi: PhiCurve, axes: Any = None) -> Any:
    """Draw Φ(α) and its derivative, cut at 10, over α (ERNN paper, Fig. 5).

    Args:
        phi: from `phi_curve`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    curve(axes, phi.alpha, phi.value, "Φ(α)")
    curve(axes, phi.alpha, np.where(phi.slope <= 10, phi.slope, np.nan), "dΦ/dα", linestyle="--")
    return finish(axes, "α", "equilibrium; derivative")


@draws("alignment")
def draw_alignment(alignment: Alignment, axes: Any = None, label: str = "") -> Any:
    """Draw the eigenvalues of I + U in the complex plane, with the circle |λ| = 1.

    Args:
        alignment: from `alignment`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes, 4.2, 4.0)
    points(axes, alignment.eigenvalues, label)
    unit_circle(axes)
    return finish(axes, "real part", "imaginary part", title="eigenvalues of I + U")


@draws("inner_residuals")
def draw_inner_residuals(residuals: InnerResiduals, axes: Any = None, label: str = "") -> Any:
    """Draw the residual after each inner step, over all steps and sequences: the median with a band of 80 %.

    Args:
        residuals: from `inner_residuals`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    values = residuals.residual.reshape(len(residuals.residual), -1)
    spread(axes, np.arange(len(values)), np.maximum(values, SMALLEST), label)
    return finish(axes, "inner step k", "residual ‖φ(z) − z‖", log=True)


@draws("learned_rates")
def draw_rates(rates: LearnedRates, axes: Any = None) -> Any:
    """Draw the learned η over the positions, with its least-squares line (ERNN paper, Fig. 9).

    Args:
        rates: from `learned_rates`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    steps = np.arange(len(rates.eta))
    for k, values in enumerate(rates.eta.T):
        colour = COLOURS[k % len(COLOURS)]
        name = f"inner step {k + 1}" if rates.eta.shape[1] > 1 else ""
        curve(axes, steps + 1, values, name, color=colour, marker=".", linewidth=0.8)
        axes.plot(steps + 1, rates.intercept[k] + rates.slope[k] * steps, color=colour, linestyle="--")
    return finish(axes, "step", "learned η")
