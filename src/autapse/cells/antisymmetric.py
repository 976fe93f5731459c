"""The AntisymmetricRNN, with diffusion and gating."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, zeros_
from autapse.cells.matrices import damped
from autapse.forms import Form, Leaky, SharedGate


class Antisymmetric(FormCell):
    """h' = h + ε·tanh((W − Wᵀ − γI)·h + V·x + b)

    AntisymmetricRNN paper, equation 12; W is strictly upper triangular, with n(n−1)/2 free parameters. V starts normal
    with variance 1/m, W with variance init_scale²/n, b = 0 (appendix C). At h = 0 without input or bias the step is
    stable if γ ≥ ε(γ² + μ²)/2 for each eigenvalue ±iμ of W − Wᵀ. The defaults need not satisfy this.

    Args:
        step: ε.
        diffusion: γ.
        gated: equation 13, h' = h + ε·z ∘ tanh(M·h + V_h·x + b_h) with z = σ(M·h + V_z·x + b_z) and M = W − Wᵀ − γI.
        structured: False is the paper's ablation, M = W − γI with a full W.
        init_scale: scale of the initial W.
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
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.step_size = checks.number("step", step, above=0.0)
        self.diffusion = checks.number("diffusion", diffusion, low=0.0)
        self.gated = checks.boolean("gated", gated)
        self.structured = checks.boolean("structured", structured)
        self.unit_matrices = () if structured else ("weight_hh",)
        self.init_scale = checks.number("init_scale", init_scale, low=0.0)
        width = 2 * hidden_size if gated else hidden_size  # z over h
        self.weight_ih = self._parameter(width, input_size)
        free = (hidden_size * (hidden_size - 1) // 2,) if structured else (hidden_size, hidden_size)
        self.weight_hh = self._parameter(*free)
        self.bias_h = self._bias(width)
        self.reset_parameters()

    def form(self) -> str:
        return SharedGate.name if self.gated else Leaky.name

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.weight_ih.normal_(std=1 / math.sqrt(self.input_size))
        self.weight_hh.normal_(std=self.init_scale / math.sqrt(self.hidden_size))
        zeros_(self.bias_h)

    def matrix(self) -> Tensor:
        """M = W − Wᵀ − γI, or W − γI if it is not structured."""
        return damped(self.weight_hh, self.hidden_size, self.diffusion, self.structured)

    def prepare(self) -> Form:
        if self.gated:
            return SharedGate(self.matrix(), candidate=(0.0, self.step_size), carry=(1.0, 0.0))
        return Leaky(self.matrix(), "tanh", alpha=self.step_size, beta=1.0)
