"""Figures of gradients through time: spectra, flow over the lag, gradients of a loss, Lyapunov exponents, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from autapse import diagnostics
from autapse.diagnostics.figures.base import (
    SMALLEST,
    axes_or_new,
    band,
    curve,
    draws,
    finish,
    of_kind,
    points,
    spread,
    unit_circle,
)

if TYPE_CHECKING:
    from autapse.diagnostics.flow import GradientFlow
    from autapse.diagnostics.jacobians import JacobianSpectrum
    from autapse.diagnostics.loss_gradients import LossGradient
    from autapse.diagnostics.lyapunov import Lyapunov
    from autapse.diagnostics.recall import LinearMemory
    from autapse.diagnostics.surfaces import GradientPath, LossSurface


@draws("jacobian_spectrum")
def draw_spectrum(spectrum: JacobianSpectrum, axes: Any = None, label: str = "") -> Any:
    """Draw the eigenvalues of all steps in the complex plane, with the circle |λ| = 1.

    Args:
        spectrum: from `jacobian_spectrum`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes, 4.2, 4.0)
    values = spectrum.eigenvalues.ravel()
    points(axes, values[~np.isnan(values)], label, alpha=0.4)
    unit_circle(axes)
    return finish(axes, "real part", "imaginary part", title="eigenvalues of ∂h_t/∂h_{t−1}")


@draws("gradient_flow")
def draw_gradient_flow(flow: GradientFlow, axes: Any = None, label: str = "", singular: bool = False) -> Any:
    """Draw the size of ∂h_T/∂h_{T−lag} over the lag: the typical value, with a band of 80 % of the sequences.

    Args:
        flow: from `gradient_flow`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.
        singular: also the largest and the smallest singular value, dashed, as medians over the sequences.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    lags = np.arange(len(flow.gain))
    colour = curve(axes, lags, np.maximum(flow.typical, SMALLEST), label)
    low, high = np.nanquantile(flow.gain, (0.1, 0.9), axis=1)
    band(axes, lags, np.maximum(low, SMALLEST), np.maximum(high, SMALLEST), colour)
    if singular and len(flow.lags):
        for edge in (0, -1):
            values = np.nanmedian(flow.singular_values[:, :, edge], axis=1)
            axes.plot(flow.lags, np.maximum(values, SMALLEST), linestyle="--", color=colour, linewidth=1)
    return finish(axes, "lag (steps)", "gain of a gradient", log=True)


@draws("loss_gradient")
def draw_loss_gradient(gradient: LossGradient, axes: Any = None, label: str = "") -> Any:
    """Draw ‖∂L/∂h_t‖ over the steps, a line per layer and direction: medians over the sequences with bands of 80 %.

    Args:
        gradient: from `loss_gradient`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend, before the number of the layer.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    count, steps, _ = gradient.norm.shape
    past = np.arange(steps)[:, None] >= gradient.lengths
    for n, norm in enumerate(gradient.norm):
        name = " ".join(word for word in (label, f"layer {n + 1}" if count > 1 else "") if word)
        spread(axes, np.arange(1, steps + 1), np.maximum(np.where(past, np.nan, norm), SMALLEST), name)
    return finish(axes, "step", "norm of ∂L/∂h_t", log=True)


@draws("lyapunov_exponents")
def draw_lyapunov(exponents: Lyapunov, axes: Any = None, label: str = "") -> Any:
    """Draw the Lyapunov exponents in order: means over the sequences with standard errors. Above 0, differences grow.

    Args:
        exponents: from `lyapunov_exponents`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    known = exponents.exponents[~np.isnan(exponents.exponents[:, 0])]
    numbers, mean = np.arange(1, known.shape[1] + 1), known.mean(0)
    with np.errstate(invalid="ignore"):  # an exponent of −∞: no difference survives
        error = known.std(0, ddof=1) / np.sqrt(len(known)) if len(known) > 1 else np.zeros_like(mean)
    colour = curve(axes, numbers, mean, label, marker="o", markersize=4)
    band(axes, numbers, mean - error, mean + error, colour)
    axes.axhline(0, color="gray", linestyle="--", linewidth=1)
    return finish(axes, "number", "Lyapunov exponent (nats per step)")


@draws("linear_memory")
def draw_linear_memory(memory: LinearMemory, axes: Any = None, label: str = "") -> Any:
    """Draw how much of each past input can be read from the state, over the lag: one line per feature.

    Args:
        memory: from `linear_memory`.
        axes: the axes of matplotlib to draw on; by default those of a new figure.
        label: name in the legend, before the number of the feature.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    for n, values in enumerate(memory.r2.T):
        name = " ".join(word for word in (label, f"feature {n + 1}" if memory.r2.shape[1] > 1 else "") if word)
        curve(axes, memory.lags, np.clip(values, 0, 1), name)
    axes.set_ylim(-0.03, 1.03)
    return finish(axes, "lag (steps)", "R² of a linear reading")


@draws("loss_surface")
def draw_loss_surface(surface: LossSurface, paths: dict[str, GradientPath] | None = None, axes: Any = None) -> Any:
    """Draw the loss over two parameters as colours, with the ways of gradient steps on it.

    Args:
        surface: from `loss_surface`.
        paths: from `gradient_path`, by name.
        axes: the axes of matplotlib to draw on; by default those of a new figure.

    Returns:
        The axes.
    """
    from matplotlib.colors import LogNorm

    for path in (paths or {}).values() if isinstance(paths, dict | None) else [paths]:
        of_kind("paths", path, diagnostics.GradientPath, "Pass results of gradient_path by name.")
    axes = axes_or_new(axes, 5.2, 4.0)
    loss = np.maximum(surface.loss, max(surface.loss.max() * 1e-8, SMALLEST))
    # Thousands of squares as one image: an SVG file of them would have megabytes.
    drawn = {"cmap": "cividis", "norm": LogNorm(), "shading": "nearest", "rasterized": True}
    colours = axes.pcolormesh(surface.first, surface.second, loss, **drawn)
    axes.figure.colorbar(colours, ax=axes, label="loss")
    limits = axes.get_xlim(), axes.get_ylim()
    for name, path in (paths or {}).items():
        # A white edge, so that the line is visible on every colour.
        a, b = path.points.T
        axes.plot(a, b, color="white", linewidth=3)
        curve(axes, a, b, name, marker="o", markersize=3, linewidth=1.2)
    axes.set(xlim=limits[0], ylim=limits[1])
    return finish(axes, *surface.names)
