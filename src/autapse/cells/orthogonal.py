"""Recurrent matrices that are orthogonal, or nearly so, by construction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.cells.matrices import reflections
from autapse.cells.modulus import ModulusCell
from autapse.cells.parametrization import Parametrization
from autapse.forms import ACTIVATIONS, Form, Leaky


class OrthogonalRNN(ModulusCell):
    """h' = modReLU(W·x + R·h; b), modReLU(a; b) = a/|a|·max(0, |a| + b), R exactly orthogonal or unitary

    The tunable EURNN (Jing et al. 2017), a baseline of the ERNN paper, is `parametrization="rotations"` with
    `field="complex"`; its real form is the default field. `field="complex"` with "exp" or "cayley" is the full-capacity
    unitary network (Wisdom et al. 2016), which all unitary matrices can be. R starts as a block diagonal of random
    rotations by up to π/2, complex: of random phases, or with random angles ("rotations"); W starts uniform in ±1/√n,
    b = 0.

    Args:
        parametrization: R is "exp": exp(A), "cayley": (I − A)⁻¹(I + A), both of a skew A with n(n−1)/2 parameters
            (complex: of a skew-Hermitian A with n²), or "rotations": a product of layers of 2×2 rotations of
            neighbouring units, in alternating pairs; complex: with a phase per pair, and before them one per unit.
        capacity: number of layers of rotations; None: hidden_size, which has n(n−1)/2 angles in total.
        nonlinearity: "modrelu", or act of h' = act(W·x + R·h + b): "tanh", "relu", "sigmoid" or "identity"; complex:
            of the real and of the imaginary part.
        field: "real" or "complex". The state of n complex units has 2n numbers: the real parts, then the imaginary
            parts.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        parametrization: str = "exp",
        capacity: int | None = None,
        nonlinearity: str = "modrelu",
        field: str = "real",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, nonlinearity, field, **factory)
        self._of = Parametrization.checked(parametrization, hidden_size, capacity, field)
        self.parametrization, self.capacity = parametrization, self._of.capacity
        self._make_parameters(self._of.count)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih)
        zeros_(self.bias_h)
        self._of.start_(self.weight_hh)

    def matrix(self) -> Tensor:
        """R, [H, H], orthogonal; complex: P + iQ as [[P, −Q], [Q, P]], [2H, 2H]."""
        return self._of.matrix(self.weight_hh)


class SpectralRNN(FormCell):
    """h' = act(W·x + P·Σ·Q·h + b), P and Q products of Householder reflections, σᵢ = 1 + 2r(σ(pᵢ) − ½)

    A baseline of the ERNN paper (Zhang et al. 2018): every singular value stays in [1 − r, 1 + r]. The reflections
    start random, Σ = I, W uniform in ±1/√n, b = 0.

    Args:
        radius: r.
        reflections: number of reflections in P and in Q; None: hidden_size.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
    """

    form_class = Leaky

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        radius: float = 0.01,
        reflections: int | None = None,
        nonlinearity: str = "tanh",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.radius = checks.number("radius", radius, low=0.0, high=1.0)
        self.reflections = None if reflections is None else checks.integer("reflections", reflections, minimum=1)
        count = self.reflections or hidden_size
        if count > hidden_size:
            checks.fail("reflections", f"be at most hidden_size = {hidden_size}", count)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.left = self._parameter(hidden_size, count)
        self.right = self._parameter(hidden_size, count)
        self.spectrum = self._parameter(hidden_size)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih)
        self.left.normal_()
        self.right.normal_()
        zeros_(self.spectrum, self.bias_h)

    def matrix(self) -> Tensor:
        """R = P·Σ·Q, [H, H]."""
        sigma = 1 + 2 * self.radius * (torch.sigmoid(self.spectrum) - 0.5)
        return (reflections(self.left) * sigma) @ reflections(self.right)

    def prepare(self) -> Form:
        return Leaky(self.matrix(), self.nonlinearity)
