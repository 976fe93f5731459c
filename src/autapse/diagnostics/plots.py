"""Figures: each function draws the numbers of a probe, or of a run. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse.diagnostics.figures.base import new_figure, saved
    from autapse.diagnostics.figures.curves import (
        AttentionPanel,
        ForecastPanel,
        Panel,
        draw_attention,
        draw_memory,
        draw_svg,
        plot_attention,
        plot_curves,
        plot_forecasts,
    )
    from autapse.diagnostics.figures.dynamics import (
        draw_alignment,
        draw_convergence,
        draw_fixed_points,
        draw_inner_residuals,
        draw_phase,
        draw_phi,
        draw_rates,
        draw_sensitivity,
    )
    from autapse.diagnostics.figures.gradients import (
        draw_gradient_flow,
        draw_linear_memory,
        draw_loss_gradient,
        draw_loss_surface,
        draw_lyapunov,
        draw_spectrum,
    )
    from autapse.diagnostics.figures.states import (
        draw_discrimination,
        draw_estimation,
        draw_gates,
        draw_lesion,
        draw_saturation,
        draw_solves,
        draw_spread,
        draw_units,
        draw_weight_distance,
    )

__all__ = [
    "AttentionPanel",
    "ForecastPanel",
    "Panel",
    "draw_alignment",
    "draw_attention",
    "draw_convergence",
    "draw_discrimination",
    "draw_estimation",
    "draw_fixed_points",
    "draw_gates",
    "draw_gradient_flow",
    "draw_inner_residuals",
    "draw_lesion",
    "draw_linear_memory",
    "draw_loss_gradient",
    "draw_loss_surface",
    "draw_lyapunov",
    "draw_memory",
    "draw_phase",
    "draw_phi",
    "draw_rates",
    "draw_saturation",
    "draw_sensitivity",
    "draw_solves",
    "draw_spectrum",
    "draw_spread",
    "draw_svg",
    "draw_units",
    "draw_weight_distance",
    "new_figure",
    "plot_attention",
    "plot_curves",
    "plot_forecasts",
    "saved",
]

__getattr__ = lazy(
    __name__,
    {
        "autapse.diagnostics.figures.base": "new_figure saved",
        "autapse.diagnostics.figures.dynamics": "draw_alignment draw_convergence draw_fixed_points "
        "draw_inner_residuals draw_phase draw_phi draw_rates draw_sensitivity",
        "autapse.diagnostics.figures.curves": "AttentionPanel ForecastPanel Panel draw_attention draw_memory draw_svg "
        "plot_attention plot_curves plot_forecasts",
        "autapse.diagnostics.figures.gradients": "draw_gradient_flow draw_linear_memory draw_loss_gradient "
        "draw_loss_surface draw_lyapunov draw_spectrum",
        "autapse.diagnostics.figures.states": "draw_discrimination draw_estimation draw_gates draw_lesion "
        "draw_saturation draw_solves draw_spread draw_units draw_weight_distance",
    },
)
