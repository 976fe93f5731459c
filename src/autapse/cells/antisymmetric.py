"""The AntisymmetricRNN, with diffusion and gating."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from autapse import checks
from autapse.cells.base import FormCell, zeros_
from autapse.cells.matrices import damped
from autapse.forms import ACTIVATIONS, INTEGRATORS, Form, Integrated, Leaky, SharedGate


class Antisymmetric(FormCell):
    """h' = h + ε·tanh((W − Wᵀ − γI)·h + V·x + b)

    AntisymmetricRNN paper, equation 12: the forward Euler step of dh/dt = tanh(M·h + V·x + b), M = W − Wᵀ − γI. W is
    strictly upper triangular, with n(n−1)/2 free parameters. V starts normal with variance 1/m, W with variance
    init_scale²/n, b = 0 (appendix C). At h = 0 without input or bias the step is stable if γ ≥ ε(γ² + μ²)/2 for each
    eigenvalue ±iμ of W − Wᵀ. The defaults need not satisfy this.

    Args:
        step: ε.
        diffusion: γ.
        gated: equation 13, h' = h + ε·z ∘ tanh(M·h + V_h·x + b_h) with z = σ(M·h + V_z·x + b_z) and M = W − Wᵀ − γI.
        structured: False is the paper's ablation, M = W − γI with a full W.
        init_scale: scale of the initial W.
        nonlinearity: "tanh"; or another act than tanh: "relu", "sigmoid" or "identity".
        integrator: how the differential equation is stepped: "euler" as in the paper; "heun" or "rk4", of second and
            fourth order; "splitting": the units are two halves p and q that read only each other, and p moves by half a
            step, q by a step, p by half a step. If act is the identity and γ, V·x and b are 0, it keeps the energy
            ‖p‖² + ‖q‖² − ε²/4·‖K·q‖², K the part of W by which p reads q.
    """

    renamed: ClassVar[dict[str, str]] = {"step": "step_size"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        step: float = 0.1,
        diffusion: float = 0.01,
        gated: bool = False,
        structured: bool = True,
        init_scale: float = 1.0,
        nonlinearity: str = "tanh",
        integrator: str = "euler",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.step_size = checks.number("step", step, above=0.0)
        self.diffusion = checks.number("diffusion", diffusion, low=0.0)
        self.gated = checks.boolean("gated", gated)
        self.structured = checks.boolean("structured", structured)
        self.unit_matrices = () if structured else ("weight_hh",)
        self.init_scale = checks.number("init_scale", init_scale, low=0.0)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.integrator = checks.one_of("integrator", integrator, INTEGRATORS)
        self._check_options()
        width = 2 * hidden_size if gated else hidden_size  # z over h
        self.weight_ih = self._parameter(width, input_size)
        self.weight_hh = self._parameter(*self._free_shape())
        self.bias_h = self._bias(width)
        self.reset_parameters()

    def _check_options(self) -> None:
        if self.integrator == "splitting" and not self.structured:
            checks.fail("structured", 'be True with integrator="splitting", which needs M = W − Wᵀ − γI', False)
        if self.gated and self.nonlinearity != "tanh" and self.integrator == "euler":
            checks.fail("nonlinearity", 'be "tanh" with gated=True and integrator="euler"', self.nonlinearity)

    def _free_shape(self) -> tuple[int, ...]:
        n = self.hidden_size
        if self.integrator == "splitting":
            return (n + 1) // 2, n // 2
        return (n * (n - 1) // 2,) if self.structured else (n, n)

    def form(self) -> str | None:  # type: ignore[override]
        if self.integrator != "euler":
            return None  # there is no kernel
        return SharedGate.name if self.gated else Leaky.name

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.weight_ih.normal_(std=1 / math.sqrt(self.input_size))
        self.weight_hh.normal_(std=self.init_scale / math.sqrt(self.hidden_size))
        zeros_(self.bias_h)

    def matrix(self) -> Tensor:
        """M = W − Wᵀ − γI, or W − γI if it is not structured."""
        if self.integrator == "splitting":
            halves = functional.pad(self.weight_hh, (len(self.weight_hh), 0, 0, self.weight_hh.shape[1]))
            return damped(halves - halves.t(), self.hidden_size, self.diffusion, structured=False)
        return damped(self.weight_hh, self.hidden_size, self.diffusion, self.structured)

    def prepare(self) -> Form:
        if self.integrator != "euler":
            return Integrated(self.matrix(), self.integrator, self.step_size, self.nonlinearity, self.gated)
        if self.gated:
            return SharedGate(self.matrix(), candidate=(0.0, self.step_size), carry=(1.0, 0.0))
        return Leaky(self.matrix(), self.nonlinearity, alpha=self.step_size, beta=1.0)
