"""The iteration z ← z + C·(F(z) − z) with guarded Anderson acceleration, which several solvers share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from autapse.solve.base import Progress
from autapse.solve.report import SolveReport
from autapse.solve.system import Groups, Point, System

REGULARISATION = 1e-10  # of the least-squares problem, relative to its size: a window may be nearly dependent
FIRST_REST = 4.0  # plain steps after a bad accelerated one; doubles each time, so that it tends to the plain method


class Anderson:
    """The last few steps and residuals of each problem, and whether it may use them now."""

    def __init__(self, groups: Groups, window: int, threshold: float, guard: float, like: Tensor) -> None:
        """`like` is where the rows are."""
        self.groups, self.window, self.threshold, self.guard = groups, window, threshold, guard
        self.steps: list[Tensor] = []
        self.changes: list[Tensor] = []
        self.last: tuple[Tensor, Tensor] | None = None
        self.rest = torch.zeros(groups.count, dtype=torch.float64, device=like.device)  # plain steps still to take
        self.penalty = torch.full_like(self.rest, FIRST_REST)
        self.accelerated = torch.full_like(self.rest, torch.inf)  # the residual before an accelerated step

    def mix(self, z: Tensor, residual: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
        """The point and residual that the next step goes from; `now` is the relative residual of each problem."""
        if self.last is not None:
            self.steps.append(z - self.last[0])
            self.changes.append(residual - self.last[1])
            del self.steps[: -self.window], self.changes[: -self.window]
        self.last = (z, residual)
        self._rest(now)
        use = (now < self.threshold) & (self.rest == 0)
        if not self.steps or not bool(use.any()):
            self.accelerated.fill_(torch.inf)
            return z, residual
        self.accelerated = torch.where(use, now, torch.inf)
        return self._extrapolate(z, residual, use)

    def _rest(self, now: Tensor) -> None:
        bad = now > self.guard * self.accelerated
        self.rest = torch.where(bad, self.penalty, (self.rest - 1).clamp_min(0))
        self.penalty = torch.where(bad, 2 * self.penalty, self.penalty)

    def _extrapolate(self, z: Tensor, residual: Tensor, use: Tensor) -> tuple[Tensor, Tensor]:
        changes = torch.stack([c.flatten(1) for c in self.changes], 1)  # [N, m, k]
        both = torch.cat([changes, residual.flatten(1).unsqueeze(1)], 1)
        products = self.groups.sum(torch.bmm(changes, both.transpose(1, 2))).double()  # [B, m, m + 1]
        gram, right = products[..., :-1], products[..., -1:]
        size = gram.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-300)
        gram = gram + REGULARISATION * size[:, None, None] * torch.eye(gram.shape[1], device=gram.device).double()
        weights = torch.nan_to_num(torch.linalg.solve_ex(gram, right)[0], 0.0, 0.0, 0.0) * use[:, None, None]
        rows = self.groups.each_row(weights).to(z.dtype).transpose(1, 2)  # [N, 1, m]
        steps = torch.stack([s.flatten(1) for s in self.steps], 1)
        return z - torch.bmm(rows, steps).view_as(z), residual - torch.bmm(rows, changes).view_as(z)

    def select(self, groups: Groups, problems: Tensor, rows: Tensor) -> None:
        """Keep some of the problems."""
        self.groups = groups
        self.steps = [s.index_select(0, rows) for s in self.steps]
        self.changes = [c.index_select(0, rows) for c in self.changes]
        if self.last is not None:
            self.last = (self.last[0].index_select(0, rows), self.last[1].index_select(0, rows))
        self.rest, self.penalty, self.accelerated = (
            part.index_select(0, problems) for part in (self.rest, self.penalty, self.accelerated)
        )


def iterate(
    name: str,
    system: System,
    z: Tensor,  # the free rows
    whole: Tensor,  # all rows
    at: Callable[[System, Tensor], Point],  # one evaluation
    free: Callable[[System], Groups],  # of the rows that it leaves free
    tolerances: tuple[float, float],
    max_iterations: int,
    window: int,
    threshold: float = torch.inf,
    guard: float = torch.inf,
    select: Callable[[System, Tensor], Tensor] = lambda system, rows: rows,  # of some rows, which free ones they are
) -> tuple[Tensor, SolveReport]:
    """`max_iterations` evaluations at most; a step is taken between two of them."""
    progress = Progress(system, whole, *tolerances)
    memory = Anderson(free(system), window, threshold, guard, z) if window else None
    for n in range(max_iterations):
        point = at(progress.system, z)
        progress.charge(1.0)
        progress.step()
        groups = free(progress.system)
        if not progress.note(point.z, groups.norm(point.residual), progress.system.groups.norm(point.z)):
            break
        if n == max_iterations - 1:
            break
        now = progress.now
        base, residual = (z, point.residual) if memory is None else memory.mix(z, point.residual, now)
        z = base + point.correct(residual)
        before, staying = progress.system, progress.active.nonzero()[:, 0]
        rows = progress.leave()
        if rows is not None:
            kept = select(before, rows)
            z = z.index_select(0, kept)
            if memory is not None:
                memory.select(free(progress.system), staying, kept)
    return progress.finish(name)
