"""Leaky units: a linear self-connection with a time constant."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.forms import ACTIVATIONS, Form, Leaky


class LeakyRNN(FormCell):
    """h' = (1 − 1/τ) ∘ h + (1/τ) ∘ act(W·x + R·h + b)

    The textbook's equation 10.7, 1 ≤ τ < ∞. W and R start uniform in ±1/√n, b = 0.

    Args:
        tau: τ, a number for all units, a tensor with a value per unit, or a pair (low, high): each unit then draws its
            own once, uniformly in log τ.
        learn_tau: make τ a parameter, as 1/τ = σ(p), which keeps τ above 1.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
    """

    form_class = Leaky
    unit_matrices = ("weight_hh",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        tau: float | tuple[float, float] | Tensor = 10.0,
        learn_tau: bool = False,
        nonlinearity: str = "tanh",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.learn_tau = checks.boolean("learn_tau", learn_tau)
        self.tau = self._checked_tau(tau)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        rate = self._parameter(hidden_size)  # p if learned, 1/τ otherwise
        if learn_tau:
            self.rate = rate
        else:
            self.register_buffer("rate", rate.data)
        self.reset_parameters()

    def _checked_tau(self, tau: Any) -> float | tuple[float, float] | Tensor:
        if isinstance(tau, Tensor):
            if tuple(tau.shape) != (self.hidden_size,):
                rule = f"have one value per unit, shape ({self.hidden_size},)"
                checks.fail("tau", rule, tuple(tau.shape), kind=checks.ShapeError)
            for extreme in (tau.min().item(), tau.max().item()):
                self._checked_number(extreme)
            return tau
        if isinstance(tau, tuple | list):
            bounds = tuple(self._checked_number(bound) for bound in tau)
            if len(bounds) != 2 or bounds[0] > bounds[1]:
                checks.fail("tau", "be a number, a tensor, or a pair (low, high) with low ≤ high", tau)
            return bounds
        return self._checked_number(tau)

    def _checked_number(self, tau: Any) -> float:
        above, remedy = (1.0, "Learned time constants start above 1.") if self.learn_tau else (None, "")
        return checks.number("tau", tau, low=1.0, above=above, remedy=remedy)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        zeros_(self.bias_h)
        if isinstance(self.tau, tuple):
            low, high = (math.log(bound) for bound in self.tau)
            self.rate.uniform_(low, high).neg_().exp_()
        else:
            self.rate.copy_(1 / torch.as_tensor(self.tau, dtype=self.rate.dtype))
        if self.learn_tau:
            self.rate.logit_()

    def time_constants(self) -> Tensor:
        """τ of each unit, [H]."""
        return 1 / self._alpha()

    def _alpha(self) -> Tensor:
        return torch.sigmoid(self.rate) if self.learn_tau else self.rate

    def prepare(self) -> Form:
        alpha = self._alpha()
        return Leaky(self.weight_hh, self.nonlinearity, alpha=alpha, beta=1 - alpha)
