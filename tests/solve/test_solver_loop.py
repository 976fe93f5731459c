"""The loop of the solvers, with an iteration that follows a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from torch import Tensor

from autapse.solve import Equations, Groups
from autapse.solve.loop import Goal, Iteration, Visit, iterate, select


class Pair(NamedTuple):
    tensor: Tensor
    others: tuple[Any, ...]


def test_select_takes_rows_of_every_tensor_and_keeps_the_rest() -> None:
    index = torch.tensor([2, 0])
    chosen = select(Pair(torch.arange(3), (torch.arange(6).view(3, 2), None, "name", ())), index)
    assert isinstance(chosen, Pair)
    assert chosen.tensor.tolist() == [2, 0]
    assert chosen.others[0].tolist() == [[4, 5], [0, 1]]
    assert chosen.others[1:] == (None, "name", ())


@dataclass(frozen=True)
class Script(Iteration):
    """Problem p converges at its visit number `last[p]`, and is at the point 10·p + n at visit n."""

    last: tuple[int, ...]
    seen: list[list[int]] = field(default_factory=list)  # the problems in the batch at each step

    def start(self, system: Equations, z: Tensor) -> Visit:
        return self.at(torch.arange(len(self.last)), 0)

    def step(self, system: Equations, visit: Visit, active: Tensor) -> Visit:
        problem, n = visit.problems
        assert system.operands[0].flatten().tolist() == problem.tolist() == visit.rows.flatten().tolist()
        self.seen.append(problem.tolist())
        return self.at(problem, int(n[0]) + 1)

    def at(self, problem: Tensor, n: int) -> Visit:
        ends = torch.tensor(self.last)[problem] == n
        z = 10.0 * problem[:, None] + n
        residual = torch.where(ends, 0.0, 1.0 / (n + 1)).double()
        return Visit(z, residual, ends, ends & False, 2.0, problem[:, None], (problem, torch.full_like(problem, n)))


class Steps(Script):
    counts_start: ClassVar[bool] = False


class Copies(Script):
    copies: ClassVar[int] = 2


def system(count: int) -> Equations:
    return Equations(lambda z, b: z, torch.arange(count, dtype=torch.float32)[:, None])


def test_finished_problems_leave_and_keep_their_point_and_counts() -> None:
    script = Script(Goal(0.0, 0.0), (0, 3, 1, 3))
    z, report = iterate("script", script, system(4), torch.zeros(4, 1), limit=10)
    assert z.flatten().tolist() == [0.0, 13.0, 21.0, 33.0]
    assert report.all_converged
    assert report.iterations.tolist() == [1, 4, 2, 4]
    assert report.evaluations.tolist() == [2.0, 8.0, 4.0, 8.0]
    assert script.seen == [[1, 2, 3], [1, 3], [1, 3]]


def test_few_finished_problems_stay_in_the_batch_without_cost() -> None:
    script = Script(Goal(0.0, 0.0), (0, *[2] * 19))
    z, report = iterate("script", script, system(20), torch.zeros(20, 1), limit=10)
    assert script.seen == [list(range(20))] * 2
    assert report.iterations.tolist() == [1, *[3] * 19]
    assert z.flatten().tolist() == [0.0, *(10.0 * p + 2 for p in range(1, 20))]


@pytest.mark.parametrize(("kind", "visits"), [(Script, 2), (Steps, 3)])
def test_the_limit_counts_the_start_or_only_steps(kind: type[Script], visits: int) -> None:
    script = kind(Goal(0.0, 0.0), (9,))
    z, report = iterate("script", script, system(1), torch.full((1, 1), 7.0), limit=2)
    assert report.iterations.tolist() == [2]
    assert report.evaluations.tolist() == [2.0 * visits]
    assert float(z) == visits - 1
    assert not report.all_converged
    z, report = iterate("script", script, system(1), torch.full((1, 1), 7.0), limit=0)
    assert float(z) == (7.0 if kind is Script else 0.0)


def test_when_a_copy_converges_the_other_stops() -> None:
    script = Copies(Goal(0.0, 0.0), (1, 5, 4, 2))
    _, report = iterate("script", script, system(4), torch.zeros(4, 1), limit=10)
    assert report.converged.tolist() == [True, False, False, True]
    assert report.iterations.tolist() == [2, 2, 3, 3]


def test_groups_of_several_rows_keep_their_best_point() -> None:
    """Two problems of two rows; the second gets worse, and its first point is returned."""

    class Worse(Script):
        def at(self, problem: Tensor, n: int) -> Visit:
            residual = torch.tensor([1.0 / (n + 1), 1.0 + n], dtype=torch.float64)
            none = residual < 0
            z = torch.full((4, 1), float(n))
            return Visit(z, residual, none, none, 1.0, torch.zeros(4, 1), (problem, torch.full_like(problem, n)))

        def step(self, system: Any, visit: Visit, active: Tensor) -> Visit:
            return self.at(visit.problems[0], int(visit.problems[1][0]) + 1)

    batch = system(2)
    batch.groups = Groups(2, torch.tensor([0, 1, 0, 1]))
    z, report = iterate("script", Worse(Goal(0.0, 0.0), (9, 9)), batch, torch.zeros(4, 1), limit=3)
    assert z.flatten().tolist() == [2.0, 0.0, 2.0, 0.0]
    assert report.residual.tolist() == [1 / 3, 1.0]
