"""Sweeps: each position in turn from its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import Progress, Solver
from autapse.solve.report import SolveReport
from autapse.solve.system import System

Order = Literal["symmetric", "red-black"]


@dataclass(frozen=True, kw_only=True)
class Sweeps(Solver):
    """Nonlinear Gauss–Seidel on a line: z_t ← F_t(z) with what the neighbours are by then, up to 100 iterations.

    A symmetric iteration goes forth and back along the line and then evaluates the residual, three evaluations in all.
    A red-black one updates every second position from the others and then the others from these, all of one colour at
    once; what the second half is about to change is the residual, so that it costs one evaluation in all.
    """

    default_iterations: ClassVar[int] = 100

    order: Order = "symmetric"
    """ "symmetric": position by position, forth and back. "red-black": one colour after the other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("order", self.order, get_args(Order))

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        z = system.zero() if start is None else start
        progress = Progress(system, z, self._tolerance(rtol), self.atol)
        sweep = _forth_and_back if self.order == "symmetric" else _red_black
        cost = 3.0 if self.order == "symmetric" else 1.0
        for _ in range(self._limit()):
            z, following, residual = sweep(progress.system, z)
            progress.charge(cost)
            progress.step()
            groups = progress.system.groups
            if not progress.note(z, groups.norm(residual), groups.norm(z)):
                break
            z = following
            rows = progress.leave()
            if rows is not None:
                z = z.index_select(0, rows)
        return progress.finish(self.name)


def _forth_and_back(system: System, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The point after a sweep, where the next one begins, and the residual of the point."""
    z = z.clone()  # the best point so far may be this one
    positions = system.positions()
    for rows in (*positions, *reversed(positions[:-1])):  # the last is not due again where the sweep turns
        z[rows] = system.evaluate_rows(z, rows)
    return z, z, system.evaluate(z) - z


def _red_black(system: System, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same; the black rows are exact after their update, so that only the red ones have a residual."""
    red, *black = system.colours()
    if len(black) > 1:
        raise NotImplementedError(f"{type(system).__name__} has more than two colours. Use Sweeps(order='symmetric').")
    z = z.clone()
    for rows in black:
        z[rows] = system.evaluate_rows(z, rows)
    following = z.clone()
    following[red] = system.evaluate_rows(z, red)
    return z, following, following - z
