"""Diagnostics: probes compute values, plots draw values. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse.diagnostics.attractors import FixedPoints, fixed_points
    from autapse.diagnostics.classes import Discrimination, discrimination
    from autapse.diagnostics.contraction import Contraction
    from autapse.diagnostics.diagnosis import Diagnosis, Finding, diagnose
    from autapse.diagnostics.equilibria import (
        Alignment,
        InnerResiduals,
        LearnedRates,
        PhiCurve,
        alignment,
        inner_residuals,
        learned_rates,
        phi_curve,
    )
    from autapse.diagnostics.estimation import IterativeEstimation, iterative_estimation
    from autapse.diagnostics.flow import GradientFlow, gradient_flow
    from autapse.diagnostics.gates import DualGates, dual_gates
    from autapse.diagnostics.implicit import ImplicitSolves, ImplicitSpread, implicit_solves, implicit_spread
    from autapse.diagnostics.jacobians import JacobianSpectrum, jacobian_spectrum
    from autapse.diagnostics.lesions import Lesion, lesion
    from autapse.diagnostics.loss_gradients import LossGradient, loss_gradient
    from autapse.diagnostics.lyapunov import Lyapunov, lyapunov_exponents
    from autapse.diagnostics.memory import MemoryTrace, memory_trace
    from autapse.diagnostics.odes import ConvergenceOrder, Sensitivity, convergence_order, sensitivity
    from autapse.diagnostics.paths import ShortestPath, shortest_path
    from autapse.diagnostics.phase import PhasePortrait, phase_portrait
    from autapse.diagnostics.recall import LinearMemory, linear_memory
    from autapse.diagnostics.surfaces import GradientPath, LossSurface, gradient_path, loss_surface
    from autapse.diagnostics.trajectories import Trajectory, trajectory
    from autapse.diagnostics.units import Saturation, saturation
    from autapse.diagnostics.weights import WeightDistance, WeightRecorder, weight_distance

__all__ = [
    "Alignment",
    "Contraction",
    "ConvergenceOrder",
    "Diagnosis",
    "Discrimination",
    "DualGates",
    "Finding",
    "FixedPoints",
    "GradientFlow",
    "GradientPath",
    "ImplicitSolves",
    "ImplicitSpread",
    "InnerResiduals",
    "IterativeEstimation",
    "JacobianSpectrum",
    "LearnedRates",
    "Lesion",
    "LinearMemory",
    "LossGradient",
    "LossSurface",
    "Lyapunov",
    "MemoryTrace",
    "PhasePortrait",
    "PhiCurve",
    "Saturation",
    "Sensitivity",
    "ShortestPath",
    "Trajectory",
    "WeightDistance",
    "WeightRecorder",
    "alignment",
    "convergence_order",
    "diagnose",
    "discrimination",
    "dual_gates",
    "fixed_points",
    "gradient_flow",
    "gradient_path",
    "implicit_solves",
    "implicit_spread",
    "inner_residuals",
    "iterative_estimation",
    "jacobian_spectrum",
    "learned_rates",
    "lesion",
    "linear_memory",
    "loss_gradient",
    "loss_surface",
    "lyapunov_exponents",
    "memory_trace",
    "phase_portrait",
    "phi_curve",
    "saturation",
    "sensitivity",
    "shortest_path",
    "trajectory",
    "weight_distance",
]

__getattr__ = lazy(
    __name__,
    {
        "autapse.diagnostics.attractors": "FixedPoints fixed_points",
        "autapse.diagnostics.classes": "Discrimination discrimination",
        "autapse.diagnostics.contraction": "Contraction",
        "autapse.diagnostics.diagnosis": "Diagnosis Finding diagnose",
        "autapse.diagnostics.equilibria": "Alignment InnerResiduals LearnedRates PhiCurve "
        "alignment inner_residuals learned_rates phi_curve",
        "autapse.diagnostics.estimation": "IterativeEstimation iterative_estimation",
        "autapse.diagnostics.flow": "GradientFlow gradient_flow",
        "autapse.diagnostics.gates": "DualGates dual_gates",
        "autapse.diagnostics.implicit": "ImplicitSolves ImplicitSpread implicit_solves implicit_spread",
        "autapse.diagnostics.jacobians": "JacobianSpectrum jacobian_spectrum",
        "autapse.diagnostics.lesions": "Lesion lesion",
        "autapse.diagnostics.loss_gradients": "LossGradient loss_gradient",
        "autapse.diagnostics.lyapunov": "Lyapunov lyapunov_exponents",
        "autapse.diagnostics.memory": "MemoryTrace memory_trace",
        "autapse.diagnostics.odes": "ConvergenceOrder Sensitivity convergence_order sensitivity",
        "autapse.diagnostics.paths": "ShortestPath shortest_path",
        "autapse.diagnostics.phase": "PhasePortrait phase_portrait",
        "autapse.diagnostics.recall": "LinearMemory linear_memory",
        "autapse.diagnostics.surfaces": "GradientPath LossSurface gradient_path loss_surface",
        "autapse.diagnostics.trajectories": "Trajectory trajectory",
        "autapse.diagnostics.units": "Saturation saturation",
        "autapse.diagnostics.weights": "WeightDistance WeightRecorder weight_distance",
    },
)
