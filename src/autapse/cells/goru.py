"""The gated orthogonal recurrent unit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.cells.parametrization import Parametrization
from autapse.forms import Form, GatedRecurrent


class GORU(FormCell):
    """h' = z ∘ h + (1 − z) ∘ modReLU(W_n·x + r ∘ (R·h); b), r = σ(W_r·x + U_r·h + b_r), z = σ(W_z·x + U_z·h + b_z)

    The gated orthogonal recurrent unit of Jing et al. (2017): a GRU whose candidate has an exactly orthogonal R, and
    modReLU(a; b) = sign(a)·max(0, |a| + b) instead of tanh. R has as many layers of rotations as the paper's
    `capacity` says. W and U start uniform in ±1/√n, biases 0 (ours; in the authors' code b_r starts at 2 and b at
    0.01), R as that of `OrthogonalRNN`.

    Args:
        parametrization: R is "rotations": a product of layers of 2×2 rotations of neighbouring units, in alternating
            pairs, "exp": exp(A), or "cayley": (I − A)⁻¹(I + A), both of a skew A.
        capacity: number of layers of rotations; None: hidden_size.
    """

    form_class = GatedRecurrent

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        parametrization: str = "rotations",
        capacity: int | None = None,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self._of = Parametrization.checked(parametrization, hidden_size, capacity)
        self.parametrization, self.capacity = parametrization, self._of.capacity
        self.weight_ih = self._parameter(3 * hidden_size, input_size)  # W_r over W_z over W_n
        self.weight_gates = self._parameter(2 * hidden_size, hidden_size)  # U_r over U_z
        self.weight_hh = self._parameter(self._of.count)
        self.bias_h = self._bias(2 * hidden_size)  # b_r over b_z
        self.bias_n = self._bias(hidden_size)  # b of modReLU
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_gates)
        zeros_(self.bias_h, self.bias_n)
        self._of.start_(self.weight_hh)

    def matrix(self) -> Tensor:
        """R, [H, H], orthogonal."""
        return self._of.matrix(self.weight_hh)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        if self.bias_h is None:
            return self.weight_ih, None
        return self.weight_ih, torch.cat([self.bias_h, self.bias_h.new_zeros(self.hidden_size)])

    def prepare(self) -> Form:
        threshold = self.weight_gates.new_zeros(self.hidden_size) if self.bias_n is None else self.bias_n
        return GatedRecurrent(torch.cat([self.weight_gates, self.matrix()]), None, threshold=threshold)
