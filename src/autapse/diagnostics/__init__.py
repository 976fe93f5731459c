"""Diagnostics: probes compute values, plots draw values. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse.diagnostics.classes import Discrimination, discrimination
    from autapse.diagnostics.contraction import Contraction
    from autapse.diagnostics.estimation import IterativeEstimation, iterative_estimation
    from autapse.diagnostics.flow import GradientFlow, gradient_flow
    from autapse.diagnostics.gates import DualGates, dual_gates
    from autapse.diagnostics.jacobians import JacobianSpectrum, jacobian_spectrum
    from autapse.diagnostics.lesions import Lesion, lesion
    from autapse.diagnostics.loss_gradients import LossGradient, loss_gradient
    from autapse.diagnostics.lyapunov import Lyapunov, lyapunov_exponents
    from autapse.diagnostics.paths import ShortestPath, shortest_path
    from autapse.diagnostics.trajectories import Trajectory, trajectory
    from autapse.diagnostics.weights import WeightDistance, WeightRecorder, weight_distance

__all__ = [
    "Contraction",
    "Discrimination",
    "DualGates",
    "GradientFlow",
    "IterativeEstimation",
    "JacobianSpectrum",
    "Lesion",
    "LossGradient",
    "Lyapunov",
    "ShortestPath",
    "Trajectory",
    "WeightDistance",
    "WeightRecorder",
    "discrimination",
    "dual_gates",
    "gradient_flow",
    "iterative_estimation",
    "jacobian_spectrum",
    "lesion",
    "loss_gradient",
    "lyapunov_exponents",
    "shortest_path",
    "trajectory",
    "weight_distance",
]

__getattr__ = lazy(
    __name__,
    {
        "autapse.diagnostics.classes": "Discrimination discrimination",
        "autapse.diagnostics.contraction": "Contraction",
        "autapse.diagnostics.estimation": "IterativeEstimation iterative_estimation",
        "autapse.diagnostics.flow": "GradientFlow gradient_flow",
        "autapse.diagnostics.gates": "DualGates dual_gates",
        "autapse.diagnostics.jacobians": "JacobianSpectrum jacobian_spectrum",
        "autapse.diagnostics.lesions": "Lesion lesion",
        "autapse.diagnostics.loss_gradients": "LossGradient loss_gradient",
        "autapse.diagnostics.lyapunov": "Lyapunov lyapunov_exponents",
        "autapse.diagnostics.paths": "ShortestPath shortest_path",
        "autapse.diagnostics.trajectories": "Trajectory trajectory",
        "autapse.diagnostics.weights": "WeightDistance WeightRecorder weight_distance",
    },
)
