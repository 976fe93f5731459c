"""What holds of every solver: a problem's result does not depend on the others of its batch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lines import Chainlike, Layout, chain

from autapse.solve import (
    Anderson,
    BiCGStab,
    BlockTridiagonal,
    Chain,
    Equations,
    FixedPoint,
    Newton,
    Paper,
    Solver,
    SolveReport,
    Stage,
    Sweeps,
    Tridiagonal,
)
from autapse.solve.acceleration import Damped
from autapse.solve.loop import TINY, Bookkeeping, Goal
from tolerance import close

SOLVERS: list[Solver] = [
    FixedPoint(),
    FixedPoint(damping=0.7),
    Anderson(),
    Anderson(threshold=1e-2, window=3),
    Newton(),
    Newton(line_search=True, precondition=False),
    Newton(linear=BiCGStab()),
    Newton(linear=BlockTridiagonal()),
    Sweeps(),
    Sweeps(order="red-black"),
    Tridiagonal(),
    Tridiagonal(window=0),
    Chain(Tridiagonal(max_iterations=5), Newton(max_iterations=1), Stage(Anderson(), begin="zero")),
]
EVERY = [*SOLVERS, Paper()]
LENGTHS = (3, 9, 1, 6, 12, 2)


def mixed(strength: float = 0.14) -> Chainlike:
    return chain(LENGTHS, strength=strength)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_each_problem_is_solved_as_if_alone(solver: Solver) -> None:
    system = mixed()
    z, report = solver.solve(system, rtol=1e-7)
    assert report.all_converged
    assert len(set(report.iterations.tolist())) > 1  # they leave one after the other
    for n in range(len(LENGTHS)):
        part, rows = system.select(torch.tensor([n]))
        alone, other = solver.solve(part, rtol=1e-7)
        close(z[rows], alone)
        assert (int(other.iterations), float(other.evaluations)) == (
            int(report.iterations[n]),
            float(report.evaluations[n]),
        )
        assert other.finished_by[0] == report.finished_by[n]
        assert float(other.residual) == pytest.approx(float(report.residual[n]), rel=1e-4, abs=1e-14)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_the_order_of_the_batch_does_not_matter(solver: Solver) -> None:
    system = mixed()
    z, report = solver.solve(system, rtol=1e-7)
    order = [4, 0, 5, 2, 3, 1]
    rows = torch.tensor([system.layout.row[order[p], t] for p, t in Layout([LENGTHS[p] for p in order]).keys])
    other = Chainlike(system.weights, system.x[rows], [LENGTHS[p] for p in order])
    shuffled, again = solver.solve(other, rtol=1e-7)
    close(shuffled, z[rows])
    expected = report.take(torch.tensor(order))
    assert again.iterations.tolist() == expected.iterations.tolist()
    assert again.evaluations.tolist() == expected.evaluations.tolist()
    assert again.finished_by == expected.finished_by


@pytest.mark.parametrize("solver", EVERY, ids=repr)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_problem_without_numbers_disturbs_no_other(solver: Solver, value: float) -> None:
    system = mixed()
    expected, clean = solver.solve(system, rtol=1e-7)
    spoiled = Chainlike(system.weights, system.x.clone(), LENGTHS)
    mine = system.groups.owner == 3
    spoiled.x[mine] = value
    spoiled.linear = False
    z, report = solver.solve(spoiled, rtol=1e-7)
    others = [0, 1, 2, 4, 5]
    if math.isnan(value):
        assert report.converged.tolist() == [True, True, True, False, True, True]
        assert float(report.residual[3]) == float("inf")
        assert bool(torch.isfinite(z[mine]).all())
    assert bool(report.converged[others].all())
    if not isinstance(solver, Paper):  # whose batch shares its scalars
        close(z[~mine], expected[~mine])
        assert report.iterations[others].tolist() == clean.iterations[others].tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("solver", [FixedPoint(), Anderson(guard=1e-9)], ids=repr)
def test_what_diverges_is_left_at_its_best_point(solver: Solver, dtype: torch.dtype) -> None:
    """z² + 1 has no fixed point: |z² + 1 − z| / |z| is least, 1, at z = 1, which the iteration from 0 meets."""
    b = torch.tensor([[0.2], [1.0], [0.1]], dtype=dtype)
    z, report = solver.solve(Equations(lambda z, b: z * z + b, b))
    assert report.converged.tolist() == [True, False, True]
    assert int(report.iterations[1]) < 20  # it is not kept once it is no number
    roots = 0.5 - (0.25 - b).clamp_min(0).sqrt()
    assert float((z - roots)[[0, 2]].abs().max()) < 1e-3
    if isinstance(solver, FixedPoint):
        assert float(z[1]) == 1.0
        assert float(report.residual[1]) == 1.0


def test_too_large_is_not_converged() -> None:
    """In float32 the norm of 1e25 is infinite; ‖r‖ ≤ rtol·∞ would say converged."""
    system = Equations(lambda z, b: 2 * z + b, torch.tensor([[1e25], [0.0]]))
    z, report = FixedPoint(max_iterations=3).solve(system)
    assert report.converged.tolist() == [False, True]
    assert bool(torch.isfinite(z).all())


def test_a_converged_point_is_the_one_returned() -> None:
    """With atol a point may be within the tolerance although an earlier one had the lesser relative residual."""
    system = Equations(torch.cos, start=torch.tensor([[100.0]], dtype=torch.float64))
    goal = Goal(rtol=0.0, atol=0.1)
    books = Bookkeeping(Damped(goal), system, system.start)
    one = lambda value: torch.tensor([value], dtype=torch.float64)
    assert books.record(goal.judge(system.start, one(1.0), one(100.0)))
    assert not books.record(goal.judge(torch.tensor([[0.001]], dtype=torch.float64), one(0.01), one(0.001)))
    z, report = books.finish("test")
    assert report.all_converged
    assert float(z) == 0.001
    assert float(report.residual) == 10.0


@pytest.mark.parametrize("solver", EVERY, ids=repr)
def test_solutions_at_zero(solver: Solver) -> None:
    """F(0) = 0: the residual is zero, so that even a tolerance of zero is met."""
    system = mixed()
    system.x.zero_()
    z, report = solver.solve(system, start=system.zero(), rtol=0.0)
    assert report.all_converged
    assert report.residual.tolist() == [0.0] * len(LENGTHS)
    assert float(z.abs().max()) == 0


@pytest.mark.parametrize("solver", EVERY, ids=repr)
@pytest.mark.parametrize("lengths", [(), (0,), (0, 4, 0), (1,)])
def test_empty_batches_and_empty_problems(solver: Solver, lengths: tuple[int, ...]) -> None:
    z, report = solver.solve(system := chain(lengths), rtol=1e-6)
    assert report.all_converged
    assert z.shape == system.x.shape
    assert len(report.converged) == len(lengths)
    assert float((system.evaluate(z) - z).norm()) <= 1e-6 * float(z.norm())


@pytest.mark.parametrize("kind", [FixedPoint, Anderson, Newton, Sweeps, Tridiagonal])
def test_no_iterations_return_the_start(kind: type[Solver]) -> None:
    limited = kind(max_iterations=0)
    system = mixed()
    start = torch.randn_like(system.x)
    z, report = limited.solve(system, start)
    close(z, start)
    assert not bool(report.converged.any())
    assert report.iterations.tolist() == [0] * len(LENGTHS)


@pytest.mark.parametrize("solver", EVERY, ids=repr)
def test_starts_are_not_changed_and_a_solution_is_recognised(solver: Solver) -> None:
    system = mixed()
    exact, _ = Newton(rtol=1e-14).solve(system)
    start = exact.T.contiguous().T  # not contiguous
    kept = start.clone()
    z, report = solver.solve(system, start, rtol=1e-9)
    assert torch.equal(start, kept)
    assert report.all_converged
    assert int(report.iterations.max()) <= 1
    assert float((z - exact).abs().max()) < 1e-8
    assert z.data_ptr() != start.data_ptr()


@pytest.mark.parametrize("solver", EVERY, ids=repr)
def test_reports_are_true(solver: Solver) -> None:
    """Where nothing converges too: the residual is that of the point returned."""
    system = mixed(strength=0.8)
    for rtol in (1e-6, 0.0):
        z, report = solver.solve(system, rtol=rtol)
        true = system.groups.norm(system.evaluate(z) - z) / system.groups.norm(z).clamp_min(TINY)
        assert bool(((report.residual - true).abs() <= 1e-10 * true.clamp_min(1.0)).all())
        assert bool((report.converged == (report.residual <= rtol)).all())
        assert report.converged.device == report.residual.device == torch.device("cpu")


@given(st.lists(st.integers(0, 8), min_size=1, max_size=6), st.integers(0, 10**6))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_all_solvers_find_the_same(lengths: list[int], seed: int) -> None:
    system = chain(lengths, seed=seed)
    expected, report = Newton(rtol=1e-12).solve(system)
    assert report.all_converged
    for solver in EVERY:
        z, report = solver.solve(system, rtol=1e-9)
        assert report.all_converged, solver
        assert float((z - expected).norm()) < 1e-6


def test_words_and_parts_of_a_report() -> None:
    _, report = FixedPoint(max_iterations=3).solve(mixed(), rtol=1e-9)  # enough for a length of 1
    failed = int((~report.converged).sum())
    assert 0 < failed < len(LENGTHS)
    assert report.words().startswith(f"{failed} of 6 problems not converged (iteration limit), worst residual")
    part = report.take(torch.tensor([2, 2, 0]))
    assert part.iterations.tolist() == [int(report.iterations[n]) for n in (2, 2, 0)]
    assert SolveReport.empty("none", 2).all_converged
    assert (
        SolveReport.empty("none").words()
        == "0 of 0 problems not converged, worst residual 0, 0.0 evaluations on average"
    )
