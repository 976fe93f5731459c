"""The implicit midpoint step of a differential equation, the AntisymmetricRNN's by default."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.cells.base import zeros_
from autapse.cells.equilibrium import EquilibriumRule
from autapse.cells.matrices import damped
from autapse.forms import ACTIVATIONS


class ImplicitMidpoint(EquilibriumRule):
    """h' = h + ε·tanh((W − Wᵀ − γI)·(h' + h)/2 + V·x + b)

    The AntisymmetricRNN's differential equation, stepped by the implicit midpoint rule where the paper has forward
    Euler. The rule keeps what is quadratic: with γ = 0 and `nonlinearity="identity"`, without input or bias,
    ‖h'‖ = ‖h‖ for every ε, where Euler's step grows. `step` is ε, `diffusion` γ; W is strictly upper triangular, or
    with `structured=False` a full W stands for W − Wᵀ. V ~ N(0, 1/m), W ~ N(0, init_scale²/n) as variances, b = 0.
    Another right side f(y, u) than act(M·y + u) is a subclass that writes `rate`. `solver`, `rtol`,
    `gradient` and the learned steps (`inner_steps`, `eta`, `max_length`) are `EquilibriumRule`'s.
    """

    renamed: ClassVar[dict[str, str]] = {"step": "step_size"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        step: float = 0.1,
        diffusion: float = 0.01,
        nonlinearity: str = "tanh",
        structured: bool = True,
        init_scale: float = 1.0,
        **keywords: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, **keywords)
        self.step_size = checks.number("step", step, above=0.0)
        self.diffusion = checks.number("diffusion", diffusion, low=0.0)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.structured = checks.boolean("structured", structured)
        self.init_scale = checks.number("init_scale", init_scale, low=0.0)
        self.weight_ih = self._parameter(hidden_size, input_size)
        free = (hidden_size * (hidden_size - 1) // 2,) if structured else (hidden_size, hidden_size)
        self.weight_hh = self._parameter(*free)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.weight_ih.normal_(std=1 / math.sqrt(self.input_size))
        self.weight_hh.normal_(std=self.init_scale / math.sqrt(self.hidden_size))
        zeros_(self.bias_h)
        self.reset_rate()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, self.bias_h

    def prepare(self) -> Tensor:
        """M = W − Wᵀ − γI, or W − γI where unstructured."""
        return damped(self.weight_hh, self.hidden_size, self.diffusion, self.structured)

    def rate(self, y: Tensor, u: Tensor, weights: Any) -> Tensor:
        """The right side of dy/dt = f(y, u)."""
        return ACTIVATIONS[self.nonlinearity].apply(F.linear(y, weights) + u)

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        return previous + self.step_size * self.rate((h + previous) / 2, u, weights)

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        if type(self).rate is not ImplicitMidpoint.rate:
            return super().feedback(h, previous, u, weights)
        slope = ACTIVATIONS[self.nonlinearity].slope(self.rate((h + previous) / 2, u, weights))
        return (self.step_size / 2 * slope).unsqueeze(2) * weights
