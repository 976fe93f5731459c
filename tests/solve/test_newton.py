"""Newton against closed forms, SciPy and what theory says of its steps."""

from __future__ import annotations

import itertools
import math

import pytest
import scipy.optimize
import torch
from lines import chain, truth
from torch import Tensor

from autapse.solve import (
    GMRES,
    Anderson,
    BiCGStab,
    BlockTridiagonal,
    Derivative,
    Equations,
    FixedPoint,
    LinearSolver,
    Newton,
    Solver,
    Sweeps,
    Tridiagonal,
)
from autapse.solve.loop import Goal
from autapse.solve.newton import Forcing
from tolerance import close

LINEAR = [GMRES(), BiCGStab(), BlockTridiagonal()]
ON_A_LINE = [
    FixedPoint(),
    Anderson(),
    Newton(),
    Newton(precondition=False),
    Newton(line_search=True),
    Newton(linear=BiCGStab()),
    Newton(linear=BlockTridiagonal()),
    Sweeps(),
    Sweeps(order="red-black"),
    Tridiagonal(),
    Tridiagonal(window=0),
]


def square_roots(values: Tensor) -> Equations:
    """z = z + (a − z²)/2 of each problem."""
    return Equations(lambda z, a: z + (a - z * z) / 2, values, start=torch.ones_like(values))


@pytest.mark.parametrize("solver", ON_A_LINE, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_chains_by_one_dense_factorisation(solver: Solver, dtype: torch.dtype) -> None:
    system = chain(linear=True, strength=0.1, dtype=dtype)
    rtol = 3e-7 if dtype == torch.float32 else 1e-11
    z, report = solver.solve(system, rtol=rtol)
    assert report.all_converged, report.words()
    assert z.dtype == dtype
    expected = truth(system)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    assert float((z - expected).abs().max()) <= tolerance


@pytest.mark.parametrize("solver", ON_A_LINE, ids=repr)
def test_nonlinear_chains_by_scipy(solver: Solver) -> None:
    system = chain(strength=0.34, through=0.15)
    f = lambda v: (
        system.evaluate(torch.from_numpy(v).view_as(system.x)) - torch.from_numpy(v).view_as(system.x)
    ).flatten()
    found = scipy.optimize.root(lambda v: f(v).numpy(), system.zero().flatten().numpy(), tol=1e-13)
    assert found.success
    z, report = solver.solve(system, rtol=1e-11)
    assert report.all_converged, report.words()
    assert float((z.flatten() - torch.from_numpy(found.x)).abs().max()) <= 1e-9


@pytest.mark.parametrize("solver", [FixedPoint(), Anderson(), Newton(), Newton(linear=BiCGStab())], ids=repr)
def test_the_fixed_point_of_the_cosine(solver: Solver) -> None:
    z, report = solver.solve(Equations(lambda z, b: torch.cos(z), torch.ones(1, 1, dtype=torch.float64)), rtol=1e-13)
    assert report.all_converged
    assert float(z) == pytest.approx(float(scipy.optimize.fixed_point(math.cos, 1.0, xtol=1e-15)), rel=1e-12)


def test_it_squares_the_error() -> None:
    values = torch.tensor([[2.0], [3.0], [50.0]], dtype=torch.float64)
    roots, errors = values.sqrt(), []
    for n in range(9):
        z, _ = Newton(linear=GMRES(rtol=1e-15), max_iterations=n, rtol=0.0).solve(square_roots(values))
        errors.append((z - roots).abs())
    for before, after in itertools.pairwise(errors[1:]):
        # Heron's formula: e' = e² / (2z) with z ≥ √a from the first step on
        assert bool((after <= before**2 / (2 * roots) + 1e-14).all())
    close(z, roots)


def test_it_finds_points_that_the_plain_iteration_leaves() -> None:
    """The logistic map at r = 3.9: its fixed point 1 − 1/r is repelling."""
    system = Equations(lambda z, r: r * z * (1 - z), torch.full((1, 1), 3.9, dtype=torch.float64))
    start = torch.full((1, 1), 0.6, dtype=torch.float64)
    z, report = Newton(rtol=1e-12).solve(system, start)
    assert report.all_converged
    assert float(z) == pytest.approx(1 - 1 / 3.9, rel=1e-11)
    _, plain = FixedPoint(rtol=1e-12).solve(system, start)
    assert not plain.all_converged


def test_loose_linear_solves_cost_fewer_products() -> None:
    system = chain((12, 20, 16), strength=0.39, through=0.1)
    loose, report = Newton(rtol=1e-9, precondition=False).solve(system)
    tight, other = Newton(rtol=1e-9, precondition=False, linear=GMRES(rtol=1e-12)).solve(system)
    assert report.all_converged
    assert other.all_converged
    assert bool((report.iterations >= other.iterations).all())
    assert bool((report.evaluations < 0.8 * other.evaluations).all())
    assert float((loose - tight).abs().max()) < 1e-7


class Spy(GMRES):
    """What Newton asks of it."""

    asked: list[Tensor]

    def solve(self, operator, b, rtol=None, active=None):
        self.asked.append(rtol.clone())
        return super().solve(operator, b, rtol, active)


def test_forcing_is_eisenstat_and_walkers() -> None:
    spy = Spy()
    object.__setattr__(spy, "asked", [])
    system = chain((20,), strength=0.39, through=0.1)
    Newton(linear=spy, rtol=1e-12).solve(system)
    points = [Newton(max_iterations=n, rtol=1e-12).solve(system)[0] for n in range(len(spy.asked))]
    norms = [float((system.evaluate(z) - z).norm()) for z in points]
    sizes = [float(z.norm()) for z in points]
    assert all(after < before for before, after in itertools.pairwise(norms))  # points are the last, not the best
    eta = 0.3
    assert float(spy.asked[0]) == pytest.approx(eta)
    for n in range(1, len(spy.asked)):
        slow = 0.9 * eta**2
        eta = 0.9 * (norms[n] / norms[n - 1]) ** 2
        eta = max(eta, slow) if slow > 0.1 else eta
        eta = min(max(eta, 0.5e-12 * sizes[n] / norms[n]), 0.5)
        assert float(spy.asked[n]) == pytest.approx(eta, rel=1e-6)
    assert len(spy.asked) >= 4


def test_a_lucky_step_does_not_ask_for_a_tight_solve_at_once() -> None:
    numbers = lambda *values: torch.tensor(values, dtype=torch.float64)
    norms = [numbers(1.0, 1.0), numbers(0.9, 0.5), numbers(0.009, 0.005), numbers(9e-9, 5e-6)]
    found: list[Forcing] = []
    for norm in norms:
        found.append(Forcing.next(found[-1] if found else None, norm, numbers(1.0, 1.0), Goal(1e-6, 0.0)))
    close(found[0].eta, numbers(0.3, 0.3))
    close(found[1].eta, numbers(0.5, 0.225))  # 0.729, but no more than 0.5
    # 0.9·0.5² = 0.225 is above 0.1 and holds; 0.9·0.225² is not
    close(found[2].eta, numbers(0.225, 1e-4))  # 0.9·0.01² is less than the tolerance asks
    close(found[3].eta, numbers(0.5, 0.1))  # half of 1e-6 of ‖z‖ at least


def test_the_last_solve_is_no_tighter_than_the_tolerance_asks() -> None:
    spy = Spy()
    object.__setattr__(spy, "asked", [])
    Newton(linear=spy, rtol=1e-2).solve(chain((20,), strength=0.39, through=0.1))
    assert min(float(eta) for eta in spy.asked) > 0.5e-2


def test_a_line_search_finds_what_full_steps_miss() -> None:
    """z = z − atan(z): beyond 1.39 Newton's steps on atan grow without end."""
    system = Equations(lambda z, b: z - torch.atan(z - b), torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    start = torch.tensor([[1.5], [7.0]], dtype=torch.float64)
    _, full = Newton(rtol=0.0, atol=1e-9).solve(system, start)
    z, searched = Newton(rtol=0.0, atol=1e-9, line_search=True).solve(system, start)
    assert full.converged.tolist() == [True, False]
    assert searched.converged.tolist() == [True, True]
    close(z, torch.tensor([[1.0], [2.0]], dtype=torch.float64))


def test_each_problem_has_its_own_step_length() -> None:
    system = Equations(lambda z, b: z - torch.atan(z - b), torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    start = torch.tensor([[1.5], [7.0]], dtype=torch.float64)
    _, both = Newton(rtol=1e-9, line_search=True).solve(system, start)
    for n in range(2):
        part, _ = system.select(torch.tensor([n]))
        _, alone = Newton(rtol=1e-9, line_search=True).solve(part, start[n : n + 1])
        assert alone.evaluations[0] == both.evaluations[n]
    assert both.evaluations[1] > 2 * both.iterations[1] + 1  # some steps were tried again
    assert both.evaluations[0] == 2 * both.iterations[0] + 1  # and none of these


def test_evaluations_are_what_the_system_saw() -> None:
    """A problem alone: one F per linearisation and one product per GMRES step."""
    system = chain((9,))
    products = 0
    original = type(system.linearize(system.zero())[1]).jvp

    def counted(self, v):
        nonlocal products
        products += 1
        return original(self, v)

    slope = type(system.linearize(system.zero())[1])
    system.calls = 0
    try:
        slope.jvp = counted
        _, report = Newton(rtol=1e-10).solve(system)
    finally:
        slope.jvp = original
    assert float(report.evaluations[0]) == products + system.calls
    assert int(report.iterations[0]) + 1 == system.calls


def test_derivatives_of_plain_functions() -> None:
    z, v = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    system = Equations(lambda z, b: torch.sin(z).cumsum(1) * b, torch.rand(4, 3, dtype=torch.float64))
    value, J = system.linearize(z)
    assert isinstance(J, Derivative)
    dense = torch.autograd.functional.jacobian(system.evaluate, z).flatten(2).flatten(0, 1)
    close(value, system.evaluate(z))
    close(J.jvp(v).flatten(), dense @ v.flatten())
    close(J.vjp(v).flatten(), dense.T @ v.flatten())


@pytest.mark.parametrize("linear", LINEAR, ids=repr)
def test_linear_chains_need_one_exact_step(linear: LinearSolver) -> None:
    tight = type(linear)(rtol=1e-13)
    z, report = Newton(rtol=1e-9, linear=tight).solve(system := chain(linear=True))
    assert report.iterations.tolist() == [1] * 4
    close(z, truth(system))
