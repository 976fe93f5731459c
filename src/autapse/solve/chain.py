"""Chain: several solvers, each for the problems that the solvers before it did not solve."""

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
    """A solver of a chain, and where it starts.

    Args:
        solver: any solver, also a chain.
        begin: "best": start at the best point so far. "zero": start at the zero of the system.

    >>> autapse.solve.Stage(autapse.solve.FixedPoint(damping=0.5), begin="zero").begin
    'zero'
    """

    solver: Solver
    begin: Begin = "best"

    def __post_init__(self) -> None:
        checks.one_of("begin", self.begin, ("best", "zero"))


@dataclass(frozen=True, init=False, repr=False)
class Chain(Solver):
    """Each solver takes the problems that the solvers before it did not solve. The best point of each is kept.

    Args:
        stages: solvers, or `Stage` objects that also say where a solver starts.
        rtol: the relative tolerance of stages that have none of their own.
        atol: the absolute tolerance of stages whose own is 0.

    >>> chain = autapse.solve.Chain(autapse.solve.FixedPoint(max_iterations=5), autapse.solve.Newton(), rtol=1e-6)
    >>> z, report = chain.solve(autapse.solve.Equations(torch.cos, start=torch.zeros(1, 1)))
    >>> round(float(z), 4), report.finished_by
    (0.7391, ('newton',))
    """

    stages: tuple[Stage, ...]

    def __init__(self, *stages: Solver | Stage, rtol: float | None = None, atol: float = 0.0) -> None:
        if not stages or not all(isinstance(stage, Solver | Stage) for stage in stages):
            remedy = "As in Chain(Tridiagonal(), Newton())."
            checks.fail("stages", "be solvers, one at least", [type(s).__name__ for s in stages], remedy)
        super().__init__(rtol=rtol, atol=atol)
        pairs = (stage if isinstance(stage, Stage) else Stage(stage) for stage in stages)
        object.__setattr__(self, "stages", tuple(Stage(_with_atol(s.solver, atol), s.begin) for s in pairs))

    def __repr__(self) -> str:
        parts = [repr(s.solver if s.begin == "best" else s) for s in self.stages]
        return f"Chain({', '.join([*parts, f'rtol={self.rtol}', f'atol={self.atol}'])})"

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        rtol = self._tolerance(rtol)
        first = self.stages[0]
        z, report = first.solver.solve(system, start if first.begin == "best" else None, rtol)
        for stage in self.stages[1:]:
            if report.all_converged:
                break
            z, report = _continue(stage, system, z, report, rtol)
        return z, report


def _with_atol(solver: Solver, atol: float) -> Solver:
    if solver.atol or not atol:
        return solver
    if isinstance(solver, Chain):
        return Chain(*solver.stages, rtol=solver.rtol, atol=atol)
    return replace(solver, atol=atol)


def _continue(stage: Stage, system: System, z: Tensor, report: SolveReport, rtol: float) -> tuple[Tensor, SolveReport]:
    """Let a stage try the problems that are left. Its points are taken if they are better."""
    left = (~report.converged).nonzero()[:, 0]
    part, rows = system.select(left.to(z.device))
    begin = z.index_select(0, rows) if stage.begin == "best" else part.zero()
    new, more = stage.solver.solve(part, begin, rtol)
    better = more.converged | (more.residual < report.residual[left])
    keep = part.groups.spread(better.to(z.device), new)
    z = z.index_copy(0, rows, torch.where(keep, new, z.index_select(0, rows)))
    every = torch.arange(len(report.converged))
    return z, merge([report, more], len(every), [every, left])
