"""NewtonScan: Newton's method for recurrences, all steps at once, with one associative scan per iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from autapse.solve.limits import Limits
from autapse.solve.line import Line
from autapse.solve.linear_scan import linear_scan
from autapse.solve.loop import Goal, Iteration, Visit, iterate
from autapse.solve.recurrence import Recurrence
from autapse.solve.report import SolveReport

RTOL = {torch.float64: 1e-12, torch.float32: 2e-6}  # where a caller gives none
LEAP = 8.0  # a correction of more than this many times the largest state of its sequence is not plausible


class _Rows(NamedTuple):
    """What `NewtonScan` remembers of each row, [n, S] each."""

    f: Tensor  # f(h)
    before: Tensor  # the row before


@dataclass(frozen=True)
class NewtonScan(Iteration):
    """Newton's method, with one linear recurrence per iteration.

    The front of a sequence is its first step that is not within the tolerance. Steps before the front are kept. The new
    state at the front is f of the state before it, which is exact. So every iteration moves the front, even if the
    derivatives of later steps are useless. `Visit.problems` has the fronts.
    """

    counts_start: ClassVar[bool] = False
    always_advances: ClassVar[bool] = True

    damping: float

    def start(self, system: Recurrence, z: Tensor) -> Visit:
        return self._visit(system, z, 1.0)

    def step(self, system: Recurrence, visit: Visit, active: Tensor) -> Visit:
        h = self._improve(system.groups, visit.z, visit.rows.f, system.slope(visit.rows.before), visit.problems)
        return self._visit(system, h, 2.0)  # f and its derivative

    def _visit(self, system: Recurrence, h: Tensor, cost: float) -> Visit:
        line, before = system.groups, system.groups.previous(h, system.first)
        f = system.evaluate(h, before)
        norm, scale = _size(f - h), _scale(line, h, before)
        front = line.first(~(norm <= self.goal.rtol * scale + self.goal.atol))
        front_of_row = front[line.owner]
        # No iteration can change what follows from an exact state that is not finite.
        lost = line.any((line.step == front_of_row) & ~_finite(f))
        h = torch.where((lost[line.owner] & (line.step >= front_of_row))[:, None], torch.nan, h)
        residual = line.largest((norm / scale).double().nan_to_num(nan=torch.inf, posinf=torch.inf))
        return Visit(h, residual, front == line.length, lost, cost, rows=_Rows(f, before), problems=front)

    def _improve(self, line: Line, h: Tensor, f: Tensor, slope: Tensor, front: Tensor) -> Tensor:
        """The states after Newton's correction, or f if the correction is not plausible."""
        front_of_row = front[line.owner]
        shape = (-1, *[1] * (slope.dim() - 1))
        sound = _finite(f) & _finite(slope.flatten(1))
        past = sound & (line.step > front_of_row)
        f = torch.where(sound[:, None], f, 0.0)
        slope = torch.where(past.view(shape), slope * (1 - self.damping), 0.0)
        step = line.unpad(linear_scan(line.pad(slope), line.pad(f - h)))
        largest = line.largest(torch.maximum(_size(f), _size(h)))[line.owner]
        plausible = past & _finite(step) & (_size(step) <= LEAP * largest)
        new = torch.where(plausible[:, None], h + step, f)
        return torch.where((line.step < front_of_row)[:, None], h, new)


@torch.no_grad()
def solve_recurrence(system: Recurrence, limits: Limits, damping: float) -> tuple[Tensor, SolveReport]:  # [N, S]
    """The rows that solve h = f(h), and the report."""
    first, line = system.first, system.groups
    least = 4 * torch.finfo(first.dtype).eps
    rtol = max(RTOL.get(first.dtype, least) if limits.rtol is None else limits.rtol, least)
    iteration = NewtonScan(Goal(rtol, limits.atol), damping)
    z = first.new_zeros(len(line.owner), first.shape[1])
    return iterate("parallel", iteration, system, z, limits._limit(line.length + 1))


def _scale(line: Line, h: Tensor, before: Tensor) -> Tensor:  # [n]
    """The size to which the residual of a row is compared: that of its state and of the state before."""
    size = _size(h)
    info = torch.finfo(size.dtype)
    # The digits of vanishing states are noise. Later states do not count: they may still be far from the solution.
    least = line.largest_so_far(size) * info.eps**2 + info.tiny / info.eps
    return torch.maximum(torch.maximum(size, _size(before)), least)


def _size(rows: Tensor) -> Tensor:  # [N, S] -> [N]
    return torch.linalg.vector_norm(rows, ord=torch.inf, dim=-1)  # squares would overflow


def _finite(rows: Tensor) -> Tensor:  # [N, S] -> [N]
    return rows.isfinite().all(dim=-1)
