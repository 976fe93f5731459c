"""Orthogonal and unitary matrices from free values: how many values, which to start with, and the matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.matrices import (
    cayley,
    complex_block,
    complex_rotations,
    exponential,
    full_precision,
    rotations,
    skew,
    skew_hermitian,
)
from autapse.cells.unitary_exponential import unitary_exponential

PARAMETRIZATIONS = ("exp", "cayley", "rotations")


@dataclass(frozen=True)
class Parametrization:
    """R of n units: exp(A), (I − A)⁻¹(I + A), or layers of rotations.

    A is skew, or skew-Hermitian over the complex numbers. A complex matrix P + iQ is given as [[P, −Q], [Q, P]], which
    acts on the real parts of the units, followed by their imaginary parts.
    """

    kind: str
    units: int
    capacity: int | None = None  # layers of rotations; None: as many as units
    field: str = "real"

    @classmethod
    def checked(cls, kind: Any, units: int, capacity: Any, field: str = "real") -> Parametrization:
        """With the options of a cell, which must fit together."""
        checks.one_of("parametrization", kind, PARAMETRIZATIONS)
        if capacity is not None and kind != "rotations":
            checks.fail("capacity", 'be used with parametrization="rotations"', capacity, "Omit it.")
        return cls(kind, units, None if capacity is None else checks.integer("capacity", capacity, minimum=1), field)

    @property
    def pairs(self) -> list[int]:
        """Number of pairs that each layer of rotations turns. If n is even, every second layer has one pair less."""
        return [(self.units - layer % 2) // 2 for layer in range(self.capacity or self.units)]

    @property
    def count(self) -> int:
        """Number of free values."""
        n, is_complex = self.units, self.field == "complex"
        if self.kind == "rotations":  # an angle per pair; complex: also a phase per pair, and one per unit
            return 2 * sum(self.pairs) + n if is_complex else sum(self.pairs)
        return n * n if is_complex else n * (n - 1) // 2

    @torch.no_grad()
    def start_(self, free: Tensor) -> None:
        """Random angles, or a block diagonal of random rotations by up to π/2; complex: random phases on the diagonal.

        Args:
            free: the values to write.
        """
        if self.kind == "rotations":
            free.uniform_(-math.pi, math.pi)
            return
        turn = free.new_empty(self.units if self.field == "complex" else self.units // 2)
        turn.uniform_(-math.pi / 2, math.pi / 2)
        free.zero_()
        # The Cayley map of [[0, s], [−s, 0]], and of is, turns by 2·atan(s), the exponential by s.
        free[self._places(free.device)] = torch.tan(turn / 2) if self.kind == "cayley" else turn

    def _places(self, device: torch.device) -> Tensor:
        """The free values that turn a pair of units, or a complex unit."""
        row, column = torch.triu_indices(self.units, self.units, offset=0 if self.field == "complex" else 1)
        if self.field == "complex":  # the imaginary part of the diagonal, after the real parts above it
            return (self.units * (self.units - 1) // 2 + (row == column).nonzero().squeeze(1)).to(device)
        return ((row % 2 == 0) & (column == row + 1)).nonzero().squeeze(1).to(device)

    def matrix(self, free: Tensor) -> Tensor:  # [n, n]; complex: [2n, 2n]
        """R, orthogonal to rounding.

        Args:
            free: the values that it depends on.
        """
        wide = free.to(full_precision(free.dtype))
        if self.field == "complex":
            unitary = self._unitary(wide)
            return complex_block(unitary.real, unitary.imag).to(free.dtype)
        if self.kind == "rotations":
            return rotations(wide.split(self.pairs), self.units).to(free.dtype)
        A = skew(free, self.units)
        return exponential(A) if self.kind == "exp" else cayley(A)

    def _unitary(self, free: Tensor) -> Tensor:  # [n, n], complex
        if self.kind == "rotations":
            total = sum(self.pairs)
            angles, phases, first = free.split([total, total, self.units])
            return complex_rotations(angles.split(self.pairs), phases.split(self.pairs), first)
        A = skew_hermitian(free, self.units)
        return unitary_exponential(A) if self.kind == "exp" else cayley(A)
