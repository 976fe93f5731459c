"""Chains: who is passed on, what is kept, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from lines import chain
from torch import Tensor

from autapse.solve import Anderson, Chain, Equations, FixedPoint, Newton, Solver, SolveReport, Stage, Sweeps, System
from tolerance import close


class Spy(Solver):
    """A solver that says what it was given, in `seen`."""

    def __init__(self, inner: Solver) -> None:
        super().__init__()
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "seen", [])

    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        self.seen.append((system, start, rtol))
        return self.inner.solve(system, start, rtol)


def logistic() -> Equations:
    """r·z·(1 − z): the plain iteration converges for r in (1, 3), and to no point at 3.9."""
    r = torch.tensor([[2.0], [3.9], [1.5], [3.7]], dtype=torch.float64)
    return Equations(lambda z, r: r * z * (1 - z), r, start=torch.full_like(r, 0.6))


def test_only_what_is_left_is_passed_on() -> None:
    spy = Spy(Newton())
    first = FixedPoint(max_iterations=50)
    z, report = Chain(first, spy, rtol=1e-9).solve(logistic())
    _, alone = first.solve(logistic(), rtol=1e-9)
    assert alone.converged.tolist() == [True, False, True, False]
    ((system, _, rtol),) = spy.seen
    assert system.operands[0].flatten().tolist() == [3.9, 3.7]
    assert rtol == 1e-9
    assert report.all_converged
    assert report.finished_by == ("fixed point", "newton", "fixed point", "newton")
    assert float((logistic().evaluate(z) - z).abs().max()) < 1e-8
    assert report.iterations[0] == alone.iterations[0]
    assert report.iterations[1] > alone.iterations[1] == 50
    assert report.evaluations[1] > alone.evaluations[1]


def test_stages_begin_at_the_best_point_or_at_zero() -> None:
    for begin in ("best", "zero"):
        spy = Spy(Newton())
        system = logistic()
        first = FixedPoint(max_iterations=50)
        Chain(first, Stage(spy, begin=begin), rtol=1e-9).solve(system)
        best, _ = first.solve(system, rtol=1e-9)
        ((_, start, _),) = spy.seen
        close(start, (best if begin == "best" else system.start)[[1, 3]])
    spy = Spy(Newton())
    Chain(Stage(spy, begin="zero")).solve(system, start=torch.full((4, 1), 0.3, dtype=torch.float64))
    assert spy.seen[0][1] is None


def test_a_stage_that_makes_it_worse_changes_nothing() -> None:
    system = logistic()
    good, report = Newton(max_iterations=2, rtol=1e-14).solve(system)
    assert not report.all_converged
    z, joined = Chain(Newton(max_iterations=2), Stage(FixedPoint(max_iterations=1), begin="zero"), rtol=1e-14).solve(
        system
    )
    close(z, good)
    close(joined.residual, report.residual)
    assert joined.finished_by == ("newton",) * 4
    assert bool((joined.evaluations >= report.evaluations).all())
    worse = ~report.converged
    assert (joined.evaluations - report.evaluations)[worse].tolist() == [1.0] * int(worse.sum())


def test_a_stage_that_improves_without_converging_is_kept() -> None:
    system = chain()
    z, report = Chain(FixedPoint(max_iterations=2), Sweeps(max_iterations=1), rtol=0.0).solve(system)
    _, first = FixedPoint(max_iterations=2, rtol=0.0).solve(system)
    assert not report.all_converged
    better = torch.tensor([name == "sweeps" for name in report.finished_by])
    assert bool(better.any())
    assert bool((report.residual < first.residual)[better].all())
    close(report.residual, system.groups.norm(system.evaluate(z) - z) / system.groups.norm(z))


def test_nothing_is_passed_on_once_all_have_converged() -> None:
    spy = Spy(Newton())
    _, report = Chain(Anderson(), spy, rtol=1e-6).solve(chain())
    assert report.all_converged
    assert spy.seen == []


def test_tolerances_are_for_stages_that_have_none() -> None:
    own = Chain(FixedPoint(rtol=1e-2), rtol=1e-10).solve(chain())[1]
    assert float(own.residual.max()) > 1e-8
    given = Chain(FixedPoint(), rtol=1e-10).solve(chain())[1]
    assert float(given.residual.max()) <= 1e-10
    absolute = Chain(Chain(FixedPoint(), rtol=0.0), rtol=0.0, atol=1e-3)
    assert absolute.stages[0].solver.stages[0].solver.atol == 1e-3
    assert absolute.solve(chain())[1].all_converged
    assert Chain(FixedPoint(atol=1e-6), atol=1e-3).stages[0].solver.atol == 1e-6


def test_equal_chains() -> None:
    assert Chain(Newton(), Sweeps()) == Chain(Newton(), Stage(Sweeps()))
    assert hash(Chain(Newton())) == hash(Chain(Newton()))
    assert Chain(Newton()) != Chain(Newton(), rtol=1e-3)
    assert Chain(Newton()) != Chain(Stage(Newton(), begin="zero"))
    assert Chain(Newton(rtol=1e-3)) != Chain(Newton(rtol=1e-4))


@dataclass(frozen=True, kw_only=True, repr=False)
class Quiet(FixedPoint):
    """A solver of somebody's own, with a setting that its repr does not show."""

    secret: int = 0

    def __repr__(self) -> str:
        return "Quiet()"


def test_chains_differ_if_their_solvers_do_whatever_they_print() -> None:
    assert repr(Chain(Quiet(secret=1))) == repr(Chain(Quiet(secret=2)))
    assert Chain(Quiet(secret=1)) != Chain(Quiet(secret=2))
    assert Chain(Quiet(secret=1)) == Chain(Quiet(secret=1))


@pytest.mark.parametrize("stages", [(), (Newton(), "sweeps"), (Newton,)])
def test_stages_must_be_solvers(stages: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="stages must be solvers, one at least"):
        Chain(*stages)
