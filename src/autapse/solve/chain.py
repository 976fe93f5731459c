"""Chain: solvers one after the other, each for what the ones before left over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import Solver
from autapse.solve.report import SolveReport, merge
from autapse.solve.system import System

Begin = Literal["best", "zero"]


@dataclass(frozen=True)
class Stage:
    """A solver of a chain, and where it begins: at the best point so far, or at the system's zero."""

    solver: Solver
    begin: Begin = "best"

    def __post_init__(self) -> None:
        checks.one_of("begin", self.begin, ("best", "zero"))


class Chain(Solver):
    """Each solver takes the problems that those before it did not solve; the best residual of each is kept.

    >>> from autapse import solve
    >>> chain = solve.Chain(solve.Tridiagonal(), solve.Newton(), solve.Stage(solve.Anderson(), begin="zero"))
    """

    def __init__(self, *stages: Solver | Stage, rtol: float | None = None, atol: float = 0.0) -> None:
        """`rtol` is for stages that have none of their own, `atol` for those where it is 0."""
        if not stages or not all(isinstance(stage, Solver | Stage) for stage in stages):
            remedy = "As in Chain(Tridiagonal(), Newton())."
            checks.fail("stages", "be solvers, one at least", [type(s).__name__ for s in stages], remedy)
        super().__init__(rtol=rtol, atol=atol)
        whole = (stage if isinstance(stage, Stage) else Stage(stage) for stage in stages)
        object.__setattr__(self, "stages", tuple(Stage(_with_atol(s.solver, atol), s.begin) for s in whole))

    stages: tuple[Stage, ...]

    def __repr__(self) -> str:
        parts = [repr(s.solver if s.begin == "best" else s) for s in self.stages]
        return f"Chain({', '.join([*parts, f'rtol={self.rtol}', f'atol={self.atol}'])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        rtol = self._tolerance(rtol)
        z, report = self._first(system, start, rtol)
        for stage in self.stages[1:]:
            if report.all_converged:
                break
            z, report = _continue(stage, system, z, report, rtol)
        return z, report

    def _first(self, system: System, start: Tensor | None, rtol: float) -> tuple[Tensor, SolveReport]:
        stage = self.stages[0]
        return stage.solver.solve(system, start if stage.begin == "best" else None, rtol)


def _with_atol(solver: Solver, atol: float) -> Solver:
    if solver.atol or not atol:
        return solver
    if isinstance(solver, Chain):
        return Chain(*solver.stages, rtol=solver.rtol, atol=atol)
    return replace(solver, atol=atol)


def _continue(stage: Stage, system: System, z: Tensor, report: SolveReport, rtol: float) -> tuple[Tensor, SolveReport]:
    left = (~report.converged).nonzero()[:, 0]
    part, rows = system.select(left.to(z.device))
    begin = z.index_select(0, rows) if stage.begin == "best" else part.zero()
    found, more = stage.solver.solve(part, begin, rtol)
    better = more.converged | (more.residual < report.residual[left])
    keep = part.groups.spread(better.to(z.device), found)
    z = z.index_copy(0, rows, torch.where(keep, found, z.index_select(0, rows)))
    every = torch.arange(len(report.converged))
    return z, merge([report, more], len(every), [every, left])
