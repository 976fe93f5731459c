"""Sweeps: nonlinear Gauss–Seidel on a line."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from torch import Tensor

from autapse import checks
from autapse.solve.base import IterativeSolver
from autapse.solve.loop import Goal, Iteration, Visit
from autapse.solve.system import System

Order = Literal["symmetric", "red-black"]


@dataclass(frozen=True, kw_only=True)
class Sweeps(IterativeSolver):
    """Nonlinear Gauss–Seidel on a line: z_t ← F_t(z) with the newest values of the neighbours, up to 100 iterations.

    A symmetric iteration goes along the line and back, and then evaluates the residual: three evaluations in total. A
    red-black iteration updates every second position from the others, all at once, and then the others from these. The
    second update is the residual, so the iteration costs one evaluation in total.

    Args:
        order: "symmetric": position by position, along the line and back. "red-black": one colour after the other.

    >>> layer = autapse.ImplicitGRU(3, 4, solver=autapse.solve.Sweeps(order="red-black"))
    >>> output, h_n = layer(torch.randn(5, 2, 3))
    >>> layer.reports[0].finished_by
    ('sweeps', 'sweeps')
    """

    default_iterations: ClassVar[int] = 100

    order: Order = "symmetric"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("order", self.order, get_args(Order))

    def _iteration(self, goal: Goal) -> Sweep:
        return SymmetricSweep(goal) if self.order == "symmetric" else RedBlackSweep(goal)


class Sweep(Iteration):
    """One sweep per iteration. `Visit.rows` is the point from which the next sweep starts."""

    cost: ClassVar[float]

    @abstractmethod
    def sweep(self, system: System, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The point after a sweep from z, its residual, and the point from which the next sweep starts."""

    def start(self, system: System, z: Tensor) -> Visit:
        z, residual, following = self.sweep(system, z)
        return self.goal.judge(z, system.groups.norm(residual), system.groups.norm(z), self.cost, rows=following)

    def step(self, system: System, visit: Visit, active: Tensor) -> Visit:
        return self.start(system, visit.rows)


class SymmetricSweep(Sweep):
    """Position by position, along the line and back."""

    cost = 3.0

    def sweep(self, system: System, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = z.clone()  # it may be the best point so far
        positions = system.positions()
        for rows in (*positions, *reversed(positions[:-1])):  # the last position needs no second update
            z[rows] = system.evaluate_rows(z, rows)
        return z, system.evaluate(z) - z, z


class RedBlackSweep(Sweep):
    """All black rows, then all red rows. After their update the black rows are exact: only red ones have a residual."""

    cost = 1.0

    def sweep(self, system: System, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        red, *black = system.colours()
        if len(black) > 1:
            raise NotImplementedError(
                f"{type(system).__name__} has more than two colours. Use Sweeps(order='symmetric')."
            )
        z = z.clone()
        for rows in black:
            z[rows] = system.evaluate_rows(z, rows)
        following = z.clone()
        following[red] = system.evaluate_rows(z, red)
        return z, following - z, following
