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

    The differential equation of the AntisymmetricRNN, with the implicit midpoint rule instead of the paper's forward
    Euler. The midpoint rule conserves quadratic invariants: with γ = 0, `nonlinearity="identity"` and no input or bias,
    ‖h'‖ = ‖h‖ for every ε, while Euler's step grows. V starts normal with variance 1/m, W with variance init_scale²/n,
    b = 0. For another right side f(y, u) than act(M·y + u), write a subclass with its own `rate`.

    Args:
        step: ε.
        diffusion: γ.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
        structured: W is strictly upper triangular. False: a full W replaces W − Wᵀ.
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
        """M = W − Wᵀ − γI, or W − γI if it is not structured."""
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
