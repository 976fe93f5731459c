"""Recurrent matrices that are orthogonal, or nearly so, by construction."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.cells.matrices import cayley, exponential, full_precision, reflections, rotations, skew
from autapse.forms import ACTIVATIONS, Form, Leaky

PARAMETRIZATIONS = ("exp", "cayley", "rotations")


class OrthogonalRNN(FormCell):
    """h' = modReLU(W·x + R·h; b), modReLU(a; b) = sign(a)·max(0, |a| + b), R exactly orthogonal

    The real form of EURNN (Jing et al. 2017), a baseline of the ERNN paper, is `parametrization="rotations"`. R starts
    as a block diagonal of random rotations by up to π/2, or with random angles ("rotations"); W starts uniform in
    ±1/√n, b = 0.

    Args:
        parametrization: R is "exp": exp(A), "cayley": (I − A)⁻¹(I + A), both of a skew A with n(n−1)/2 parameters, or
            "rotations": a product of layers of 2×2 rotations of neighbouring units, in alternating pairs.
        capacity: number of layers of rotations; None: hidden_size, which has n(n−1)/2 angles in total.
        nonlinearity: "modrelu", or act of h' = act(W·x + R·h + b): "tanh", "relu", "sigmoid" or "identity".
    """

    form_class = Leaky

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        parametrization: str = "exp",
        capacity: int | None = None,
        nonlinearity: str = "modrelu",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.parametrization = checks.one_of("parametrization", parametrization, PARAMETRIZATIONS)
        if capacity is not None and parametrization != "rotations":
            checks.fail("capacity", 'be used with parametrization="rotations"', capacity, "Omit it.")
        self.capacity = None if capacity is None else checks.integer("capacity", capacity, minimum=1)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ("modrelu", *ACTIVATIONS))
        self.weight_ih = self._parameter(hidden_size, input_size)
        if parametrization == "rotations":
            self.weight_hh = self._parameter(sum(self._pairs()))
        else:
            self.weight_hh = self._parameter(hidden_size * (hidden_size - 1) // 2)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih)
        zeros_(self.bias_h)
        if self.parametrization == "rotations":
            self.weight_hh.uniform_(-math.pi, math.pi)
            return
        row, column = torch.triu_indices(self.hidden_size, self.hidden_size, offset=1)
        in_block = ((row % 2 == 0) & (column == row + 1)).nonzero().squeeze(1).to(self.weight_hh.device)
        angle = self.weight_hh.new_empty(len(in_block)).uniform_(-math.pi / 2, math.pi / 2)
        self.weight_hh.zero_()
        # The Cayley map of [[0, s], [−s, 0]] turns by 2·atan(s), the exponential by s.
        self.weight_hh[in_block] = torch.tan(angle / 2) if self.parametrization == "cayley" else angle

    def _pairs(self) -> list[int]:
        """Number of pairs that each layer of rotations turns. If n is even, every second layer has one pair less."""
        return [(self.hidden_size - layer % 2) // 2 for layer in range(self.capacity or self.hidden_size)]

    def matrix(self) -> Tensor:
        """R, [H, H], orthogonal."""
        if self.parametrization == "rotations":
            angles = self.weight_hh.to(full_precision(self.weight_hh.dtype))
            return rotations(angles.split(self._pairs()), self.hidden_size).to(self.weight_hh.dtype)
        A = skew(self.weight_hh, self.hidden_size)
        return exponential(A) if self.parametrization == "exp" else cayley(A)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, None if self.nonlinearity == "modrelu" else self.bias_h

    def prepare(self) -> Form:
        threshold = self.bias_h if self.nonlinearity == "modrelu" else None
        return Leaky(self.matrix(), self.nonlinearity, threshold=threshold)


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
