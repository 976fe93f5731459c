"""Paper: the solver of the paper on implicit networks, for comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import Solver
from autapse.solve.krylov import BiCGStab
from autapse.solve.linear import LinearReport
from autapse.solve.loop import Goal, iterate
from autapse.solve.newton import NewtonSteps
from autapse.solve.report import SolveReport
from autapse.solve.system import System

GUESS = 2.2  # cost of the one-step guess in evaluations, counted in matrix products


class Statistics(NamedTuple):
    """What section 4 of the paper reports about its solver.

    Attributes:
        newton_iterations: [B] int64, Newton iterations of each problem.
        inner_iterations: BiCGStab iterations of each linear solve, which the whole batch shares.
        inner_limit_hits: how many linear solves ended at the iteration limit.
        linear_solves: how many linear solves there were.

    >>> cosine = autapse.solve.Equations(torch.cos, start=torch.zeros(1, 1))
    >>> _, _, statistics = autapse.solve.Paper().solve_with_statistics(cosine)
    >>> statistics.linear_solves == len(statistics.inner_iterations)
    True
    """

    newton_iterations: Tensor
    inner_iterations: list[int]
    inner_limit_hits: int
    linear_solves: int


@dataclass(frozen=True, kw_only=True)
class Paper(Solver):
    """Newton's method from two starts per problem, with one BiCGStab for the whole batch.

    The paper on implicit networks, sections 2.3 to 2.6. One start is the guess of the system, the other is random. When
    one of them converges, it is the solution, and the other stops. Up to 40 Newton iterations, with up to 40 BiCGStab
    iterations each; all problems share the step lengths of BiCGStab.

    The paper leaves three things open. We choose: `rtol` as given by the caller, and 1e-4 by default; each linear solve
    to `inner_rtol` of the norm of its right side; random starts uniform in [−1, 1], the range of a GRU's states. Newton
    steps have full length: the "step length" of the paper is that of BiCGStab.

    Args:
        inner_iterations: largest number of BiCGStab iterations in each Newton iteration.
        inner_rtol: relative tolerance of the linear solves.
        seed: seed of the random starts.

    >>> cosine = autapse.solve.Equations(torch.cos, start=torch.zeros(1, 1))
    >>> z, report = autapse.solve.Paper(rtol=1e-6).solve(cosine)
    >>> round(float(z), 4)
    0.7391
    """

    default_iterations: ClassVar[int] = 40

    inner_iterations: int = 40
    inner_rtol: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("inner_iterations", self.inner_iterations, minimum=0)
        checks.number("inner_rtol", self.inner_rtol, low=0.0)
        checks.integer("seed", self.seed)

    @torch.no_grad()
    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        """`Solver.solve`; a `start` replaces the guess of the system."""
        return self.solve_with_statistics(system, start, rtol)[:2]

    @torch.no_grad()
    def solve_with_statistics(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport, Statistics]:
        """`solve`, which also returns what section 4 of the paper reports."""
        guess = system.guess() if start is None else start
        index = torch.arange(2 * system.groups.count, device=guess.device)
        twice, rows = system.select(index // 2)
        random = twice.groups.spread(index % 2 == 1, guess)  # the second copy of each problem
        z = torch.where(random, self._random(guess).index_select(0, rows), guess.index_select(0, rows))
        linear = BiCGStab(shared=True, rtol=self.inner_rtol, max_iterations=self.inner_iterations)
        steps = TwoStarts(Goal(self._tolerance(rtol), self.atol), linear, precondition=False)
        both, report = iterate(self.name, steps, twice, z, self._limit())
        chosen, report = _better_copies(report, GUESS if start is None else 0.0)
        _, taken = twice.select(chosen.to(guess.device))
        z = torch.empty_like(guess).index_copy_(0, rows.index_select(0, taken), both.index_select(0, taken))
        return z, report, self._statistics(report, steps.linear_reports)

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


class TwoStarts(NewtonSteps):
    """Newton's method on two copies of each problem."""

    copies: ClassVar[int] = 2


def _better_copies(report: SolveReport, guess: float) -> tuple[Tensor, SolveReport]:
    """The copy of each problem that converged or has the smaller residual, and the report of both copies together."""
    converged = report.converged.view(-1, 2)
    # If both have converged the first is taken: the other may have gone to another solution.
    rank = torch.where(converged, -1.0, report.residual.view(-1, 2))
    chosen = 2 * torch.arange(len(rank)) + rank.argmin(1)
    iterations = report.iterations.view(-1, 2).amax(1)
    evaluations = report.evaluations.view(-1, 2).sum(1) + guess
    return chosen, replace(report.take(chosen), iterations=iterations, evaluations=evaluations)
