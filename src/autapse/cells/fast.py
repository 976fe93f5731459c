"""FastRNN and FastGRNN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.forms import ACTIVATIONS, Form, Leaky, SharedGate


class FastRNN(FormCell):
    """h' = α·act(W·x + U·h + b) + β·h, α and β scalars through a sigmoid

    A baseline of the ERNN paper (Kusupati et al. 2018). α starts at σ(−3), β at σ(3); W and U start uniform in ±1/√n,
    b = 0.

    Args:
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
    """

    form_class = Leaky
    unit_matrices = ("weight_hh",)

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", **factory: Any
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        self.alpha = self._parameter()
        self.beta = self._parameter()
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        zeros_(self.bias_h)
        self.alpha.fill_(-3.0)
        self.beta.fill_(3.0)

    def prepare(self) -> Form:
        alpha, beta = torch.sigmoid(self.alpha), torch.sigmoid(self.beta)
        return Leaky(self.weight_hh, self.nonlinearity, alpha=alpha, beta=beta)


class FastGRNN(FormCell):
    """a = W·x + U·h; z = σ(a + b_z), c = tanh(a + b_h); h' = (ζ(1 − z) + ν) ∘ c + z ∘ h

    A baseline of the ERNN paper (Kusupati et al. 2018), called "FastGRNN-LSQ" in its tables if W and U have full rank.
    ζ and ν go through a sigmoid and start at σ(1) and σ(−4). W and U start uniform in ±1/√n; their factors start
    normal, so that the entries of the product have the same variance 1/(3n); b = 0.

    Args:
        input_rank: rank of W = W₁W₂ᵀ; None: W is one full matrix.
        hidden_rank: rank of U = U₁U₂ᵀ; None: U is one full matrix.
    """

    form_class = SharedGate

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        input_rank: int | None = None,
        hidden_rank: int | None = None,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.input_rank = self._checked_rank("input_rank", input_rank, input_size)
        self.hidden_rank = self._checked_rank("hidden_rank", hidden_rank, hidden_size)
        self.unit_matrices = ("weight_hh",) if hidden_rank is None else ()
        self.weight_ih, self.factor_ih = self._factors(input_size, self.input_rank)
        self.weight_hh, self.factor_hh = self._factors(hidden_size, self.hidden_rank)
        self.bias_h = self._bias(2 * hidden_size)  # b_z over b_h
        self.zeta = self._parameter()
        self.nu = self._parameter()
        self.reset_parameters()

    def _checked_rank(self, name: str, rank: int | None, size: int) -> int | None:
        limit = min(size, self.hidden_size)
        if rank is not None and checks.integer(name, rank, minimum=1) > limit:
            checks.fail(name, f"be at most {limit}, the rank of the full matrix", rank)
        return rank

    def _factors(self, columns: int, rank: int | None) -> tuple[nn.Parameter, nn.Parameter | None]:
        """W and None, or W₁ and W₂."""
        if rank is None:
            return self._parameter(self.hidden_size, columns), None
        return self._parameter(self.hidden_size, rank), self._parameter(columns, rank)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for first, second in ((self.weight_ih, self.factor_ih), (self.weight_hh, self.factor_hh)):
            if second is None:
                uniform_(self.hidden_size, first)
            else:
                for factor in (first, second):
                    factor.normal_(std=(3 * self.hidden_size * factor.shape[1]) ** -0.25)
        zeros_(self.bias_h)
        self.zeta.fill_(1.0)
        self.nu.fill_(-4.0)

    @staticmethod
    def _product(first: Tensor, second: Tensor | None) -> Tensor:
        return first if second is None else first @ second.t()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self._product(self.weight_ih, self.factor_ih).repeat(2, 1), self.bias_h

    def prepare(self) -> Form:
        zeta, nu = torch.sigmoid(self.zeta), torch.sigmoid(self.nu)
        matrix = self._product(self.weight_hh, self.factor_hh)
        return SharedGate(matrix, candidate=(zeta + nu, -zeta), carry=(0.0, 1.0))
