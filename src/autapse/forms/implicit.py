"""Rule: the state at a position as a function of its neighbours on a stencil, for implicit networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from autapse.solve.system import push

Neighbours = tuple[Tensor, ...]  # one [M, S] per offset of the stencil


class Slope(ABC):
    """The derivative of a rule at M positions: dh = Σ_j J_j·dh_{t+j}."""

    @abstractmethod
    def jvp(self, tangents: Neighbours) -> Tensor:  # one [M, S] per offset -> [M, S]
        """Σ_j J_j·d_j."""

    @abstractmethod
    def vjp(self, v: Tensor) -> Neighbours:  # [M, S] -> one [M, S] per offset
        """J_jᵀ·v for each offset."""

    @abstractmethod
    def blocks(self) -> Neighbours:  # one [M, S, S] per offset
        """Each J_j in full."""

    def bands(self) -> Neighbours | None:  # one [M, S] per offset
        """The part of each J_j that acts unit by unit, or None if a rule has none."""
        return None


class Rule(ABC):
    """h_t from the drive u_t and the states at t + offset, for M positions at once."""

    offsets: tuple[int, ...]
    operands: tuple[Tensor, ...]
    """The tensors that the rule reads, apart from drive and neighbours."""

    @abstractmethod
    def evaluate(self, u: Tensor, neighbours: Neighbours) -> Tensor:  # [M, G], [M, S] each -> [M, S]
        """The states with these neighbours; differentiable by autograd."""

    @abstractmethod
    def linearize(self, u: Tensor, neighbours: Neighbours) -> tuple[Tensor, Slope]:
        """`evaluate`, and the derivative there."""

    def evaluate_with_bands(self, u: Tensor, neighbours: Neighbours) -> tuple[Tensor, Neighbours]:
        """`evaluate`, and the bands there, for rules that have them."""
        raise NotImplementedError

    has_bands: bool = False

    def guess(self, u: Tensor, previous: Tensor) -> Tensor | None:
        """The state if all neighbours are `previous`, for a first guess by one pass in each direction. Or None."""
        return None


@dataclass(frozen=True, eq=False)
class AnyRule(Rule):
    """A rule given as a function of (u, *neighbours); its derivatives are automatic."""

    function: Callable[..., Tensor]
    offsets: tuple[int, ...]
    operands: tuple[Tensor, ...] = ()

    def evaluate(self, u: Tensor, neighbours: Neighbours) -> Tensor:
        return self.function(u, *neighbours)

    def linearize(self, u: Tensor, neighbours: Neighbours) -> tuple[Tensor, Slope]:
        slope = AnySlope(self.function, u, neighbours)
        return slope.value, slope


class AnySlope(Slope):
    """J of any function of (u, *neighbours) whose rows do not depend on each other."""

    def __init__(self, function: Callable[..., Tensor], u: Tensor, neighbours: Neighbours) -> None:
        self.function, self.u, self.neighbours = function, u, neighbours
        self.value, self._pull = torch.func.vjp(self._of_neighbours, *neighbours)[:2]

    def _of_neighbours(self, *neighbours: Tensor) -> Tensor:
        return self.function(self.u, *neighbours)

    def jvp(self, tangents: Neighbours) -> Tensor:
        return push(self._of_neighbours, self.neighbours, tangents)

    def vjp(self, v: Tensor) -> Neighbours:
        return self._pull(v)

    def blocks(self) -> Neighbours:
        def row(u: Tensor, *neighbours: Tensor) -> Tensor:
            return self.function(u[None], *(h[None] for h in neighbours))[0]

        every = tuple(range(1, 1 + len(self.neighbours)))
        return torch.func.vmap(torch.func.jacrev(row, argnums=every))(self.u, *self.neighbours)
