"""Paper: the solver of the paper on implicit networks, for comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import Progress, Solver
from autapse.solve.krylov import BiCGStab, LinearReport
from autapse.solve.newton import descend
from autapse.solve.report import SolveReport
from autapse.solve.system import System

GUESS = 2.2  # evaluations that the one-step guess costs, as counted in matrix products


class Statistics(NamedTuple):
    """What section 4 of the paper reports of its solver."""

    newton_iterations: Tensor  # [B] int64
    inner_iterations: list[int]  # of each linear solve, which the whole batch has in common
    inner_limit_hits: int  # linear solves that ended at the limit
    linear_solves: int


@dataclass(frozen=True, kw_only=True)
class Paper(Solver):
    """Newton from two starts per problem, one BiCGStab for the whole batch: the paper on implicit networks, 2.3–2.6.

    One start is the system's guess, the other is random; when either has converged it is taken, and the other stops.
    At most 40 Newton iterations, of at most 40 BiCGStab iterations each, all problems sharing their step lengths.

    The paper leaves three things open. We choose: `rtol` as the caller has it, 1e-4 without one; each linear solve to
    `inner_rtol` of the norm of its right side; random starts uniform in [−1, 1], which is where a GRU's states lie.
    Steps are taken whole: the paper's "step length" is that of BiCGStab.
    """

    default_iterations: ClassVar[int] = 40

    inner_iterations: int = 40
    """BiCGStab iterations at most, for each Newton iteration."""
    inner_rtol: float = 1e-4
    """Relative tolerance of the linear solves."""
    seed: int = 0
    """Of the random starts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("inner_iterations", self.inner_iterations, minimum=0)
        checks.number("inner_rtol", self.inner_rtol, low=0.0)
        checks.integer("seed", self.seed)

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        """The solutions, and how each problem went; a `start` takes the place of the guess."""
        z, report, _ = self.solve_with_statistics(system, start, rtol)
        return z, report

    @torch.no_grad()
    def solve_with_statistics(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport, Statistics]:
        """The same, and what the paper's section 4 reports."""
        given = system.guess() if start is None else start
        count = system.groups.count
        twice, rows = system.select(torch.arange(count, device=given.device).repeat_interleave(2))
        random = torch.arange(2 * count, device=given.device) % 2 == 1  # of the copies, the second of each problem
        z = given.index_select(0, rows)
        z = torch.where(twice.groups.spread(random, z), self._random(given).index_select(0, rows), z)
        progress = Progress(twice, z, self._tolerance(rtol), self.atol)
        linear = BiCGStab(shared=True, rtol=self.inner_rtol, max_iterations=self.inner_iterations)
        solves: list[LinearReport] = []
        limit = self._limit()
        descend(progress, z, limit, linear, preconditioned=False, seen=_stop_the_other, solved=solves.append)
        both, report = progress.finish(self.name)
        chosen, report = _chosen(report, GUESS if start is None else 0.0)
        _, taken = twice.select(chosen.to(given.device))
        z = torch.empty_like(given).index_copy_(0, rows.index_select(0, taken), both.index_select(0, taken))
        return z, report, self._statistics(report, solves)

    def _random(self, like: Tensor) -> Tensor:
        uniform = torch.rand(like.shape, generator=torch.Generator().manual_seed(self.seed), dtype=like.dtype)
        return (2 * uniform - 1).to(like.device)

    def _statistics(self, report: SolveReport, solves: list[LinearReport]) -> Statistics:
        inner = [int(solve.iterations.max()) for solve in solves]
        hits = sum(
            count == self.inner_iterations and not bool(solve.converged.all())
            for count, solve in zip(inner, solves, strict=True)
        )
        return Statistics(report.iterations, inner, hits, len(solves))


def _stop_the_other(progress: Progress) -> None:
    """Where one copy of a problem has converged, neither is at work."""
    done = progress.converged.view(-1, 2).any(1)
    progress.active = progress.active & ~done[progress.problems // 2]


def _chosen(report: SolveReport, guess: float) -> tuple[Tensor, SolveReport]:
    """Of each problem the copy that has converged, or the better one; and the report of both as one."""
    converged = report.converged.view(-1, 2)
    # Where both have converged the first is taken, as the other may have gone on to another solution.
    rank = torch.where(converged, -1.0, report.residual.view(-1, 2))
    chosen = 2 * torch.arange(len(rank)) + rank.argmin(1)
    taken = report.take(chosen)
    iterations = report.iterations.view(-1, 2).amax(1)
    evaluations = report.evaluations.view(-1, 2).sum(1) + guess
    return chosen, replace(taken, iterations=iterations, evaluations=evaluations)
