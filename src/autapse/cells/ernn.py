"""The Equilibrated RNN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.cells.inner_steps import InnerSteps
from autapse.cells.matrices import settled
from autapse.forms import ACTIVATIONS, Leaky

ALIGNMENTS = ("first_order", "exact", "none")


class ERNN(InnerSteps, FormCell):
    """h⁽ᵏ⁾ = (1 − η)·h⁽ᵏ⁻¹⁾ + η·act(A·(V·h⁽ᵏ⁻¹⁾ + W·x + b)), k = 1…K, h⁽⁰⁾ = h, h' = h⁽ᴷ⁾

    ERNN paper, equations 9, 11 and 12. η starts at 10⁻² and may become negative. The paper does not state how V, W
    and U start: here V and W are uniform in ±1/√n, U = 0 (the FastRNN that it generalises), b = 0.

    Args:
        inner_steps: K.
        eta: "shared": one η; "per_step": η_t⁽ᵏ⁾ for each position and inner step.
        max_length: with "per_step", the number of positions that have their own η; later ones use the last.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
        alignment: A, "first_order": I + U (equation 11), "exact": (I − U)⁻¹, or "none": I.
    """

    form_class = Leaky
    etas, rate_name = ("shared", "per_step"), "rate"
    floor, factorises = 0.0, False
    inner_steps: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        inner_steps: int = 1,
        eta: str = "shared",
        max_length: int | None = None,
        nonlinearity: str = "relu",
        alignment: str = "first_order",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.alignment = checks.one_of("alignment", alignment, ALIGNMENTS)
        self.unit_matrices = ("weight_hh",) if alignment == "none" else ()
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.weight_align = None if alignment == "none" else self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        inner_steps = checks.integer("inner_steps", inner_steps, minimum=1)
        self._make_rate(inner_steps, checks.one_of("eta", eta, self.etas), max_length)
        self.reset_parameters()

    @property
    def depends_on_position(self) -> bool:  # type: ignore[override]
        return self.varies or super().depends_on_position

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        zeros_(self.weight_align, self.bias_h)
        self.reset_rate()

    def _align(self, matrix: Tensor) -> Tensor:
        if self.weight_align is None:
            return matrix
        if self.alignment == "first_order":
            return matrix + self.weight_align @ matrix
        return settled(self.weight_align, matrix)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        if self.bias_h is None:
            return self._align(self.weight_ih), None
        both = self._align(torch.cat([self.weight_ih, self.bias_h[:, None]], dim=1))  # one linear solve for W and b
        return both[:, :-1], both[:, -1]

    def prepare(self) -> Leaky:
        eta, matrix = self.rates(), self._align(self.weight_hh)
        return Leaky(matrix, self.nonlinearity, alpha=eta, beta=1 - eta, inner_steps=self.inner_steps)

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Leaky) -> Tensor:
        """The right side of the equilibrium that the steps approach, h = act(A·(V·h + W·x + b))."""
        return ACTIVATIONS[self.nonlinearity].apply(torch.addmm(u, h, weights.matrix.t()))

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Leaky) -> Tensor:
        """∂φ/∂h, [B, H, H]."""
        slope = ACTIVATIONS[self.nonlinearity].slope(self.phi(h, previous, u, weights))
        return slope.unsqueeze(2) * weights.matrix
