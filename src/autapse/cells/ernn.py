"""The Equilibrated RNN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.cells.matrices import settled
from autapse.forms import ACTIVATIONS, Form, Leaky

ALIGNMENTS = ("first_order", "exact", "none")


class ERNN(FormCell):
    """h⁽ᵏ⁾ = (1 − η)·h⁽ᵏ⁻¹⁾ + η·act(A·(V·h⁽ᵏ⁻¹⁾ + W·x + b)), k = 1…K, h⁽⁰⁾ = h, h' = h⁽ᴷ⁾

    ERNN paper, equations 9, 11 and 12. The alignment A is I + U ("first_order", equation 11), (I − U)⁻¹ ("exact"), or
    I ("none"). η starts at 10⁻² and may become negative. `eta="shared"` is one number; "per_step" is η_t⁽ᵏ⁾ for
    positions up to `max_length`, past which the last value holds, so that any sequence length works. The paper does
    not state how V, W and U start: here V and W uniform in ±1/√n, U = 0 (the FastRNN that it generalises), b = 0.
    """

    form_class = Leaky

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
        self.inner_steps = checks.integer("inner_steps", inner_steps, minimum=1)
        self.eta = checks.one_of("eta", eta, ("shared", "per_step"))
        if (max_length is None) == (eta == "per_step"):
            rule = 'be given with eta="per_step"' if max_length is None else 'go with eta="per_step" only'
            checks.fail("max_length", rule, max_length, "It is the number of positions that have an η of their own.")
        self.max_length = None if max_length is None else checks.integer("max_length", max_length, minimum=1)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.alignment = checks.one_of("alignment", alignment, ALIGNMENTS)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.weight_align = None if alignment == "none" else self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        self.rate = self._parameter(*(() if self.max_length is None else (self.max_length, self.inner_steps)))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        zeros_(self.weight_align, self.bias_h)
        self.rate.fill_(1e-2)

    def _align(self, matrix: Tensor) -> Tensor:
        if self.weight_align is None:
            return matrix
        if self.alignment == "first_order":
            return matrix + self.weight_align @ matrix
        return settled(self.weight_align, matrix)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        if self.bias_h is None:
            return self._align(self.weight_ih), None
        both = self._align(torch.cat([self.weight_ih, self.bias_h[:, None]], dim=1))  # one solve for W and b
        return both[:, :-1], both[:, -1]

    def prepare(self) -> Form:
        matrix = self._align(self.weight_hh)
        return Leaky(matrix, self.nonlinearity, alpha=self.rate, beta=1 - self.rate, inner_steps=self.inner_steps)
