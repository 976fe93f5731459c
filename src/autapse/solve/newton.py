"""Newton: the full Jacobian, with linear solves that are only as exact as the step needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.base import IterativeSolver
from autapse.solve.krylov import GMRES
from autapse.solve.linear import LinearReport, LinearSolver
from autapse.solve.loop import Goal, Iteration, Visit
from autapse.solve.operator import Resolvent
from autapse.solve.system import System

FIRST_FORCING = 0.3  # fraction of the residual that the first linear solve may leave
MOST_FORCING = 0.5  # fraction that any linear solve may leave
SHORTER = 0.4  # a step that does not help is shortened to this fraction,
TRIES = 6  # at most this many times.
DECREASE = 1e-4  # A step helps if it reduces the residual by this fraction of its length.


@dataclass(frozen=True, kw_only=True)
class Newton(IterativeSolver):
    """z ← z + d with (I − J)·d = F(z) − z, solved inexactly, up to 12 iterations.

    Each linear solve may leave the fraction η = 0.9·(r/r₋)² of its right side (Eisenstat and Walker's second choice),
    with the residuals r of this point and r₋ of the last point. So linear solves are loose far from the solution, and
    get tighter as Newton's method converges; η is never smaller than half of what the tolerance needs. If the linear
    solver has an `rtol` of its own, that is used instead.

    Args:
        linear: the solver for the steps: GMRES(), BiCGStab() or BlockTridiagonal().
        line_search: shorten steps that do not reduce the residual. Safer far from a solution, but may stall near a
            fold.
        precondition: use the approximate inverse of I − J, if the system has one.

    >>> roots = autapse.solve.Equations(lambda z, a: z + (a - z * z) / 2, torch.tensor([[4.0], [9.0]]))
    >>> z, report = autapse.solve.Newton(rtol=1e-6).solve(roots, start=torch.ones(2, 1))
    >>> z.flatten()
    tensor([2., 3.])
    """

    default_iterations: ClassVar[int] = 12

    linear: LinearSolver = field(default_factory=GMRES)
    line_search: bool = False
    precondition: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.linear, LinearSolver):
            checks.fail("linear", "be a linear solver", self.linear, "As in Newton(linear=GMRES()).", checks.KindError)
        checks.boolean("line_search", self.line_search)
        checks.boolean("precondition", self.precondition)

    def _iteration(self, goal: Goal) -> NewtonSteps:
        return NewtonSteps(goal, self.linear, self.precondition, self.line_search)


class Forcing(NamedTuple):
    """The accuracy of the last linear solve of each problem, [b] float64 each."""

    eta: Tensor  # the fraction of the right side that it might leave
    norm: Tensor  # of the right side

    @staticmethod
    def next(last: Forcing | None, norm: Tensor, size: Tensor, goal: Goal) -> Forcing:
        """The accuracy of the next one, from the norms of the residual and of the point."""
        norm, size = norm.double(), size.double()
        if last is None:
            eta = torch.full_like(norm, FIRST_FORCING)
        else:
            eta = 0.9 * (norm / last.norm) ** 2
            slow = 0.9 * last.eta**2  # after one lucky step, the solves must not become tight at once
            eta = torch.where(slow > 0.1, torch.maximum(eta, slow), eta)
        least = 0.5 * (goal.rtol * size + goal.atol) / norm
        return Forcing(torch.maximum(eta, least).nan_to_num(nan=MOST_FORCING).clamp_max(MOST_FORCING), norm)


@dataclass(frozen=True)
class NewtonSteps(Iteration):
    """The steps of Newton's method."""

    counts_start: ClassVar[bool] = False

    linear: LinearSolver
    precondition: bool = True
    line_search: bool = False
    linear_reports: list[LinearReport] = field(default_factory=list)  # a report of each linear solve

    def start(self, system: System, z: Tensor) -> Visit:
        return self._visit(system, z, None, 1.0)

    def step(self, system: System, visit: Visit, active: Tensor) -> Visit:
        z, residual, jacobian = visit.z, visit.rows, visit.jacobian
        norm, size, last = visit.problems
        if jacobian is None:
            # Not counted as a cost: that of a problem must not depend on when others are dropped.
            value, jacobian = system.linearize(z)
            residual = value - z
        forcing = Forcing.next(last, norm, size, self.goal)
        operator = Resolvent(jacobian, preconditioned=self.precondition)
        d, report = self.linear.solve(operator, residual, forcing.eta, active)
        self.linear_reports.append(report)
        tries = TRIES if self.line_search else 0
        trying, length, cost = active, torch.ones_like(norm), report.evaluations
        for n in range(tries + 1):
            cost = cost + trying.double()
            new = self._visit(system, z + system.groups.spread(length, d) * d, forcing, cost)
            if n == tries:
                break
            helps = (new.problems.norm < (1 - DECREASE * length) * norm) | new.converged
            trying = trying & ~helps
            if not bool(trying.any()):
                break
            length = torch.where(trying, SHORTER * length, length)
        return new

    def _visit(self, system: System, z: Tensor, forcing: Forcing | None, cost: float | Tensor) -> Visit:
        value, jacobian = system.linearize(z)
        residual = value - z
        norm, size = system.groups.norm(residual), system.groups.norm(z)
        memory = _Problems(norm, size, forcing)
        return self.goal.judge(z, norm, size, cost, rows=residual, problems=memory, jacobian=jacobian)


class _Problems(NamedTuple):
    """What `NewtonSteps` remembers of each problem, [b] each."""

    norm: Tensor  # of the residual
    size: Tensor  # norm of z
    forcing: Forcing | None  # None before the first linear solve
