"""Diagnostics: probes compute values, plots draw values. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse.diagnostics.contraction import Contraction
    from autapse.diagnostics.flow import GradientFlow, gradient_flow
    from autapse.diagnostics.jacobians import JacobianSpectrum, jacobian_spectrum
    from autapse.diagnostics.loss_gradients import LossGradient, loss_gradient
    from autapse.diagnostics.lyapunov import Lyapunov, lyapunov_exponents
    from autapse.diagnostics.paths import ShortestPath, shortest_path
    from autapse.diagnostics.trajectories import Trajectory, trajectory

__all__ = [
    "Contraction",
    "GradientFlow",
    "JacobianSpectrum",
    "LossGradient",
    "Lyapunov",
    "ShortestPath",
    "Trajectory",
    "gradient_flow",
    "jacobian_spectrum",
    "loss_gradient",
    "lyapunov_exponents",
    "shortest_path",
    "trajectory",
]

__getattr__ = lazy(
    __name__,
    {
        "autapse.diagnostics.contraction": "Contraction",
        "autapse.diagnostics.flow": "GradientFlow gradient_flow",
        "autapse.diagnostics.jacobians": "JacobianSpectrum jacobian_spectrum",
        "autapse.diagnostics.loss_gradients": "LossGradient loss_gradient",
        "autapse.diagnostics.lyapunov": "Lyapunov lyapunov_exponents",
        "autapse.diagnostics.paths": "ShortestPath shortest_path",
        "autapse.diagnostics.trajectories": "Trajectory trajectory",
    },
)
