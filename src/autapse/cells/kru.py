"""The Kronecker recurrent unit."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import uniform_, zeros_
from autapse.cells.matrices import complex_block, full_precision
from autapse.cells.modulus import ModulusCell


class KRU(ModulusCell):
    """h' = modReLU(W·x + (K₁ ⊗ K₂ ⊗ … ⊗ K_F)·h; b), modReLU(a; b) = a/|a|·max(0, |a| + b)

    The Kronecker recurrent unit of Jose, Cissé and Fleuret (2018): the recurrent matrix is a Kronecker product of small
    factors, so that it has few parameters, and is unitary if all factors are. The factors are free. The paper keeps
    them near unitary matrices by a penalty; the training's `orthogonality` is this penalty. (Factors and penalty were
    compared with reviews of the paper; modReLU is from memory.) The factors start as random unitary matrices, W uniform
    in ±1/√n, b = 0 (ours).

    Args:
        factors: sizes of the factors, whose product is hidden_size; None: its prime factors, as 2 × 2 × … × 2 in the
            paper.
        nonlinearity: "modrelu", or act of h' = act(W·x + K·h + b): "tanh", "relu", "sigmoid" or "identity"; complex:
            of the real and of the imaginary part.
        field: "complex" as in the paper, or "real". The state of n complex units has 2n numbers: the real parts, then
            the imaginary parts.

    >>> layer = autapse.Recurrent(autapse.cells.KRU, 3, 4)
    >>> output, h_n = layer(torch.zeros(5, 2, 3))
    >>> output.shape  # real and imaginary parts
    torch.Size([5, 2, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        factors: Sequence[int] | None = None,
        nonlinearity: str = "modrelu",
        field: str = "complex",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, nonlinearity, field, **factory)
        self.factors = None if factors is None else self._checked(factors)
        self.sizes = prime_factors(hidden_size) if self.factors is None else self.factors
        self._make_parameters(2 if field == "complex" else 1, sum(size * size for size in self.sizes))

    def _checked(self, factors: Any) -> tuple[int, ...]:
        if not isinstance(factors, int | Sequence) or isinstance(factors, str):
            rule = "be a size, or several"
            checks.fail("factors", rule, factors, "An example: (2, 4).", checks.KindError)
        sizes = (factors,) if isinstance(factors, int) else tuple(factors)
        for size in sizes:
            checks.integer("factors", size, minimum=1)
        if math.prod(sizes) != self.hidden_size:
            checks.fail("factors", f"have the product hidden_size = {self.hidden_size}", sizes)
        return sizes

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih)
        zeros_(self.bias_h)
        dtype = full_precision(self.weight_hh.dtype)
        for start, size in self._places():
            drawn = torch.randn(len(self.weight_hh), size, size, dtype=dtype)
            unitary = torch.linalg.qr(torch.complex(*drawn) if len(drawn) == 2 else drawn[0]).Q
            parts = torch.stack([unitary.real, unitary.imag]) if len(drawn) == 2 else unitary[None]
            self.weight_hh[:, start : start + size * size] = parts.flatten(1).to(self.weight_hh)

    def _places(self) -> list[tuple[int, int]]:
        """Where each factor begins, and its size."""
        ends = [sum(size * size for size in self.sizes[:n]) for n in range(len(self.sizes))]
        return list(zip(ends, self.sizes, strict=True))

    def _factors(self) -> list[Tensor]:  # [1 or 2, f, f] each
        """The factors: their real parts, and complex also their imaginary parts."""
        return [self.weight_hh[:, start : start + f * f].unflatten(1, (f, f)) for start, f in self._places()]

    def recurrent_matrices(self) -> list[Tensor]:
        """The factors; complex ones P + iQ as [[P, −Q], [Q, P]]."""
        return [complex_block(*factor) if len(factor) == 2 else factor[0] for factor in self._factors()]

    def matrix(self) -> Tensor:
        """The Kronecker product, [H, H]; complex: P + iQ as [[P, −Q], [Q, P]], [2H, 2H]."""
        product = functools.reduce(_kron, self._factors())
        return complex_block(*product) if len(product) == 2 else product[0]


def _kron(left: Tensor, right: Tensor) -> Tensor:  # [1 or 2, m, m], [1 or 2, n, n] -> [1 or 2, mn, mn]
    """The Kronecker product, of complex matrices too."""
    if len(left) == 1:
        return torch.kron(left[0], right[0])[None]
    real = torch.kron(left[0], right[0]) - torch.kron(left[1], right[1])
    return torch.stack([real, torch.kron(left[0], right[1]) + torch.kron(left[1], right[0])])


def prime_factors(number: int) -> tuple[int, ...]:
    """The prime factors of a number, smallest first; (1,) for 1.

    >>> prime_factors(60)
    (2, 2, 3, 5)
    """
    factors, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return (*factors, number) if number > 1 or not factors else tuple(factors)
