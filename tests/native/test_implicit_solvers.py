"""The native solvers of the implicit GRU: what the Python solvers find and report, sequence by sequence."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from autapse.forms.implicit_gru import ImplicitGRURule
from autapse.native.implicit import ImplicitKernel
from autapse.sequences.red_black import RedBlackOrder
from autapse.solve import GMRES, LinearReport, SolveReport, Tridiagonal
from autapse.unfold.implicit_fused import FusedImplicitSlope, FusedImplicitSystem
from autapse.unfold.implicit_system import ImplicitSystem
from native.kernels import needs_kernels

pytestmark = [needs_kernels, pytest.mark.usefixtures("instruction_set")]
LENGTHS = [9, 7, 7, 2, 1, 0]
DTYPES = [torch.float64, torch.float32]
RTOL = {torch.float64: 1e-9, torch.float32: 1e-4}  # of the solves: well above rounding, so that counts agree
SAME = {torch.float64: 1e-7, torch.float32: 2e-3}  # of two solutions to that tolerance
LEAST = {torch.float64: 1e-13, torch.float32: 1e-5}  # of two relative residuals of the same point
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def systems(
    hidden: int = 13,
    lengths: Sequence[int] = LENGTHS,
    stencil: tuple[int, ...] = (-1, 1),
    dtype: torch.dtype = torch.float64,
    edges: bool = False,
    scale: float = 1.0,
) -> tuple[ImplicitSystem, FusedImplicitSystem]:
    shapes = ((2, hidden, hidden), (2 * hidden, hidden), (hidden, hidden))
    rule = ImplicitGRURule(stencil, *(scale * torch.randn(shape, dtype=dtype) / hidden**0.5 for shape in shapes))
    layout = RedBlackOrder(torch.tensor(lengths, dtype=torch.long), stencil, torch.device("cpu"), edges)
    u = torch.randn(layout.total, 5 * hidden, dtype=dtype)
    past = torch.randn(2 * len(lengths), hidden, dtype=dtype) if edges else torch.zeros(1, hidden, dtype=dtype)
    return ImplicitSystem(rule, u, layout, past), FusedImplicitSystem(
        rule, u, layout, past, ImplicitKernel(*rule.operands)
    )


def agree(found: tuple[Tensor, Any], expected: tuple[Tensor, Any], dtype: torch.dtype) -> None:
    """The same states and the same report, whatever kind of report it is."""
    torch.testing.assert_close(found[0], expected[0], rtol=SAME[dtype], atol=SAME[dtype], equal_nan=True)
    one, two = found[1], expected[1]
    assert one.converged.tolist() == two.converged.tolist()
    assert one.iterations.tolist() == two.iterations.tolist()
    assert one.evaluations.tolist() == two.evaluations.tolist()
    assert one.residual.dtype == two.residual.dtype == torch.float64
    torch.testing.assert_close(one.residual, two.residual, rtol=5e-2, atol=LEAST[dtype])


def solved_by_both(
    solver: Tridiagonal, both: tuple[ImplicitSystem, FusedImplicitSystem], start: Tensor | None = None
) -> tuple[tuple[Tensor, SolveReport], tuple[Tensor, SolveReport]]:
    reference, fused = both
    dtype = reference.edges.dtype
    called = []
    kernel = fused.kernel.relax
    fused.kernel.relax = lambda *a, **k: called.append(1) or kernel(*a, **k)  # type: ignore[method-assign,func-returns-value]
    found = solver.solve(fused, start, RTOL[dtype])
    assert called, "the native solver was not asked"
    return found, solver.solve(reference, start, RTOL[dtype])


def relative(system: ImplicitSystem, z: Tensor) -> Tensor:  # [B]
    """‖F(z) − z‖ / ‖z‖ of each sequence, by plain loops over the reference's own evaluation."""
    with torch.no_grad():
        difference = system.evaluate(z) - z
    rows = [system.layout.rows_of(b) for b in range(system.layout.count)]
    found = [float(difference[r].double().norm() / max(float(z[r].double().norm()), 1e-12)) for r in rows]
    return torch.tensor(found, dtype=torch.float64)


# The tridiagonal iteration --------------------------------------------------------------------------------------------


@every_dtype
@pytest.mark.parametrize("edges", [False, True], ids=["zero", "own"])
@pytest.mark.parametrize("stencil", [(-1, 1), (1, -1)], ids=str)
def test_the_same_states_and_report(stencil: tuple[int, ...], edges: bool, dtype: torch.dtype) -> None:
    both = systems(stencil=stencil, edges=edges, dtype=dtype)
    found, expected = solved_by_both(Tridiagonal(), both)
    agree(found, expected, dtype)
    assert found[1].all_converged
    assert found[1].finished_by == expected[1].finished_by
    assert bool((relative(both[0], found[0]) <= 1.01 * RTOL[dtype]).all())


@pytest.mark.parametrize("hidden", [1, 2, 8, 33, 70])
@pytest.mark.parametrize("lengths", [[1], [0], [2], [3, 0, 0], [40, 1]], ids=str)
def test_every_width_and_length(hidden: int, lengths: list[int]) -> None:
    agree(*solved_by_both(Tridiagonal(), systems(hidden, lengths)), torch.float64)


def test_no_sequences() -> None:
    (z, report), _ = solved_by_both(Tridiagonal(), systems(5, []))
    assert z.shape == (0, 5)
    assert len(report.converged) == 0


@pytest.mark.parametrize("window", range(9))
@pytest.mark.parametrize("threshold", [1e-3, 0.3, float("inf")])
def test_every_window_and_threshold(window: int, threshold: float) -> None:
    solver = Tridiagonal(window=window, threshold=threshold, max_iterations=200)
    found, expected = solved_by_both(solver, systems(scale=1.5))
    agree(found, expected, torch.float64)
    assert found[1].all_converged


@pytest.mark.parametrize("guard", [1e-3, 0.5, 0.9, float("inf")])
def test_every_guard(guard: float) -> None:
    """A strict guard sends nearly every accelerated step back to 4, 8, 16, … plain ones."""
    solver = Tridiagonal(guard=guard, threshold=float("inf"), max_iterations=200)
    agree(*solved_by_both(solver, systems(scale=1.5)), torch.float64)


def test_a_window_that_is_too_long_for_the_kernel_is_for_python() -> None:
    _, fused = systems()
    solver = Tridiagonal(window=9)
    assert solver.solve(fused)[1].all_converged
    with pytest.raises(AssertionError, match="not asked"):
        solved_by_both(solver, systems())


@every_dtype
def test_from_a_given_start(dtype: torch.dtype) -> None:
    both = systems(dtype=dtype)
    start = torch.randn(both[0].layout.total, 13, dtype=dtype)
    kept = start.clone()
    found, expected = solved_by_both(Tridiagonal(), both, start)
    agree(found, expected, dtype)
    assert torch.equal(start, kept)
    again, _ = solved_by_both(Tridiagonal(), both, found[0])
    assert again[1].iterations.max() == 1


def test_a_start_of_another_dtype_or_layout_is_read_as_numbers() -> None:
    """The kernel reads memory: float32 numbers taken for float64 would also be half as many as it expects."""
    _, fused = systems()
    start = torch.randn(fused.layout.total, 13)
    expected = Tridiagonal().solve(fused, start.double())[0]
    assert torch.equal(Tridiagonal().solve(fused, start)[0], expected)
    assert torch.equal(Tridiagonal().solve(fused, start.double().t().contiguous().t())[0], expected)


@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_best_point_and_its_residual_where_iterations_run_out(limit: int, dtype: torch.dtype) -> None:
    both = systems(lengths=[30, 12, 1, 0], scale=2.0, dtype=dtype)
    found, expected = solved_by_both(Tridiagonal(max_iterations=limit), both)
    agree(found, expected, dtype)
    assert found[1].converged.tolist()[0] is False
    assert found[1].iterations.tolist()[:2] == [limit, limit]
    torch.testing.assert_close(found[1].residual, relative(both[0], found[0]), rtol=1e-3, atol=LEAST[dtype])


def test_the_best_point_is_not_the_last() -> None:
    """Matrices so large that the plain iteration wanders: what is returned was better than where it stopped."""
    both = systems(lengths=[24, 20, 16], scale=8.0)
    least = torch.full((3,), torch.inf, dtype=torch.float64)
    found = []
    for limit in range(1, 16):
        (z, report), expected = solved_by_both(Tridiagonal(window=0, max_iterations=limit), both)
        assert report.residual.tolist() == pytest.approx(expected[1].residual.tolist(), rel=1e-6)
        torch.testing.assert_close(report.residual, relative(both[0], z), rtol=1e-9, atol=0.0)
        assert bool((report.residual <= least).all())
        least = report.residual
        found.append(least)
    assert any(bool((one == two).any()) for one, two in itertools.pairwise(found))  # a step that made nothing better


def test_tolerances_of_zero_and_absolute_ones() -> None:
    both = systems()
    strict = Tridiagonal(rtol=0.0, max_iterations=7)
    found, expected = solved_by_both(strict, both)
    assert found[1].converged.tolist() == expected[1].converged.tolist() == [False] * 4 + [True] * 2
    agree(*solved_by_both(Tridiagonal(rtol=0.0, atol=1e-5), both), torch.float64)


@every_dtype
def test_the_same_bits_for_every_number_of_threads(dtype: torch.dtype) -> None:
    _, fused = systems(96, [9, 9, 8, 7, 7, 2, 1, 0], dtype=dtype)
    found = []
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        z, report = Tridiagonal().solve(fused, None, RTOL[dtype])
        slope = fused.linearize(z)[1]
        v, told = slope.adjoint(z.cos(), GMRES(), RTOL[dtype])
        found.append((z, report.residual, report.iterations, v, told.residual, told.iterations))
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(other, found[0], strict=True))


@every_dtype
@pytest.mark.parametrize("edges", [False, True], ids=["zero", "own"])
def test_a_sequence_has_the_same_bits_alone(dtype: torch.dtype, edges: bool) -> None:
    _, fused = systems(40, dtype=dtype, edges=edges)
    z, report = Tridiagonal().solve(fused, None, RTOL[dtype])
    v, told = fused.linearize(z)[1].adjoint(z.cos(), GMRES(), RTOL[dtype])
    for b in range(len(LENGTHS)):
        part, rows = fused.select(torch.tensor([b]))
        alone, one = Tridiagonal().solve(part, None, RTOL[dtype])
        assert torch.equal(alone, z[rows])
        assert float(one.residual[0]) == float(report.residual[b])
        pulled, two = part.linearize(alone)[1].adjoint(alone.cos(), GMRES(), RTOL[dtype])
        assert torch.equal(pulled, v[rows])
        assert float(two.residual[0]) == float(told.residual[b])


@every_dtype
@pytest.mark.parametrize("place", [0, 3, 6])
def test_nan_in_one_sequence_is_flagged_and_stays_there(place: int, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    clean = Tridiagonal().solve(systems(dtype=dtype)[1], None, RTOL[dtype])
    torch.manual_seed(3)
    both = systems(dtype=dtype)
    with torch.no_grad():
        both[0].u[both[0].layout.rows_of(1)[place]] = torch.nan
    start = torch.full((both[0].layout.total, 13), 0.1, dtype=dtype)
    found, expected = solved_by_both(Tridiagonal(), both, start)
    agree(found, expected, dtype)
    assert found[1].converged.tolist() == [True, False, True, True, True, True]
    assert float(found[1].residual[1]) == torch.inf
    assert bool((found[0][both[0].layout.rows_of(1)] == 0.1).all())  # where it began: there was nothing better
    from_zero = Tridiagonal().solve(both[1], None, RTOL[dtype])[0]
    others = (both[0].layout.owner != 1).nonzero()[:, 0]
    assert torch.equal(from_zero[others], clean[0][others])


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("part", range(5))
def test_infinite_drive(part: int, sign: float) -> None:
    """A gate that is wide open or shut is no failure."""
    both = systems()
    with torch.no_grad():
        both[0].u[both[0].layout.rows_of(0)[4], 13 * part : 13 * (part + 1)] = sign * torch.inf
    found, expected = solved_by_both(Tridiagonal(), both)
    agree(found, expected, torch.float64)
    assert found[1].all_converged


def test_states_that_overflow_are_no_solution() -> None:
    """‖z‖ is infinite in float32: no relative residual, however small it may look."""
    both = systems(dtype=torch.float32)
    start = torch.zeros(both[0].layout.total, 13)
    start[both[0].layout.rows_of(0)] = 1e25
    found, expected = solved_by_both(Tridiagonal(max_iterations=1), both, start)
    assert found[1].converged.tolist() == expected[1].converged.tolist()
    assert float(found[1].residual[0]) == float(expected[1].residual[0]) == torch.inf
    assert torch.equal(found[0][both[0].layout.rows_of(0)], start[both[0].layout.rows_of(0)])


# The adjoint ----------------------------------------------------------------------------------------------------------


def adjoint_by_both(
    both: tuple[ImplicitSystem, FusedImplicitSystem], z: Tensor, g: Tensor, solver: GMRES, rtol: float
) -> tuple[tuple[Tensor, LinearReport], tuple[Tensor, LinearReport]]:
    with torch.no_grad():
        reference, fused = (system.linearize(z)[1] for system in both)
        assert isinstance(fused, FusedImplicitSlope)
        return fused.adjoint(g, solver, rtol), reference.adjoint(g, solver, rtol)


def dense(system: ImplicitSystem, z: Tensor) -> Tensor:
    """J by autograd through the whole evaluation."""
    if not z.numel():
        return z.new_zeros(0, 0)
    jacobian = torch.autograd.functional.jacobian(lambda w: system.evaluate(w.view_as(z)).flatten(), z.flatten())
    assert isinstance(jacobian, Tensor)
    return jacobian


@every_dtype
@pytest.mark.parametrize("edges", [False, True], ids=["zero", "own"])
@pytest.mark.parametrize("stencil", [(-1, 1), (1, -1)], ids=str)
def test_the_same_adjoint_and_report(stencil: tuple[int, ...], edges: bool, dtype: torch.dtype) -> None:
    both = systems(stencil=stencil, edges=edges, dtype=dtype)
    z, g = (torch.randn(both[0].layout.total, 13, dtype=dtype) for _ in range(2))
    for rtol in (1e-1, RTOL[dtype]):
        found, expected = adjoint_by_both(both, z, g, GMRES(), rtol)
        agree(found, expected, dtype)
        assert bool(found[1].converged.all())


@pytest.mark.parametrize("hidden", [1, 8, 11])
@pytest.mark.parametrize("lengths", [[1], [0], [2, 2], [6, 1, 0]], ids=str)
def test_the_adjoint_against_a_dense_solve(hidden: int, lengths: list[int]) -> None:
    both = systems(hidden, lengths)
    z, g = (torch.randn(both[0].layout.total, hidden, dtype=torch.float64) for _ in range(2))
    found, expected = adjoint_by_both(both, z, g, GMRES(max_iterations=100), 1e-12)
    agree(found, expected, torch.float64)
    jacobian = dense(both[0], z)
    exact = torch.linalg.solve(torch.eye(len(jacobian)).double() - jacobian.t(), g.flatten()).view_as(g)
    torch.testing.assert_close(found[0], exact, rtol=1e-9, atol=1e-10)


def test_a_gradient_of_zero_costs_nothing() -> None:
    both = systems()
    z, g = torch.randn(both[0].layout.total, 13).double(), torch.zeros(both[0].layout.total, 13).double()
    g[both[0].layout.rows_of(2)] = 1.0
    found, expected = adjoint_by_both(both, z, g, GMRES(), 1e-9)
    agree(found, expected, torch.float64)
    assert found[1].iterations.tolist()[:2] == [0, 0]
    assert bool(found[1].converged.all())
    assert found[0][both[0].layout.owner != 2].abs().max() == 0


@pytest.mark.parametrize(("limit", "rtol"), [(0, 1e-6), (1, 1e-12), (30, 1.0), (3, 0.0)])
def test_few_iterations_and_loose_tolerances(limit: int, rtol: float) -> None:
    both = systems(scale=2.0)
    z, g = (torch.randn(both[0].layout.total, 13, dtype=torch.float64) for _ in range(2))
    found, expected = adjoint_by_both(both, z, g, GMRES(max_iterations=limit), rtol)
    agree(found, expected, torch.float64)
    assert found[1].iterations.max() <= limit
    assert bool(found[1].converged.all()) == (rtol == 1.0)
    if rtol == 1.0:
        assert found[1].iterations.max() == 0


def test_an_absolute_tolerance_of_the_adjoint() -> None:
    both = systems()
    z, g = (torch.randn(both[0].layout.total, 13, dtype=torch.float64) for _ in range(2))
    agree(*adjoint_by_both(both, z, g, GMRES(rtol=0.0, atol=1e-6), 1.0), torch.float64)


@every_dtype
def test_an_exhausted_space_ends_the_solve(dtype: torch.dtype) -> None:
    """Two unknowns, and a tolerance of zero that rounding never meets: directions of noise are none."""
    both = systems(1, [3], dtype=dtype)
    z, g = (torch.randn(3, 1, dtype=dtype) for _ in range(2))
    found, expected = adjoint_by_both(both, z, g, GMRES(max_iterations=20), 0.0)
    assert found[1].iterations.tolist() == expected[1].iterations.tolist()
    assert int(found[1].iterations) <= 3
    exact = torch.linalg.solve(torch.eye(3, dtype=dtype) - dense(both[0], z).t(), g.flatten()).view_as(g)
    torch.testing.assert_close(found[0], exact, rtol=SAME[dtype], atol=SAME[dtype])


@pytest.mark.parametrize("matrix", [[[2.0]], [[1.9, 0.7], [0.1, 1.3]]], ids=str)
def test_a_singular_adjoint_is_not_called_solved(matrix: list[list[float]]) -> None:
    """Open gates, even switches and two positions at zero: h_0 = tanh(U·h_1/2), h_1 = tanh(U·h_0/2)."""
    weight = torch.tensor(matrix, dtype=torch.float64)
    weight = 2 * weight / torch.linalg.eigvals(weight).real.max()  # an eigenvalue of U/2 is 1, so I − Jᵀ has no inverse
    size = len(weight)
    switches, gates = torch.zeros(2, size, size).double(), torch.zeros(2 * size, size).double()
    rule = ImplicitGRURule((-1, 1), switches, gates, weight)
    layout = RedBlackOrder(torch.tensor([2]), (-1, 1), torch.device("cpu"), False)
    u = torch.cat([torch.zeros(2, 2 * size), torch.full((2, 2 * size), 40.0), torch.zeros(2, size)], 1).double()
    zero = torch.zeros(1, size, dtype=torch.float64)
    both = (
        ImplicitSystem(rule, u, layout, zero),
        FusedImplicitSystem(rule, u, layout, zero, ImplicitKernel(*rule.operands)),
    )
    z, g = torch.zeros(2, size).double(), torch.randn(2, size).double()
    found, expected = adjoint_by_both(both, z, g, GMRES(max_iterations=20), 1e-6)
    assert found[1].converged.tolist() == expected[1].converged.tolist() == [False]
    assert found[1].iterations.tolist() == expected[1].iterations.tolist()
    torch.testing.assert_close(found[1].residual, expected[1].residual)
    assert float(found[1].residual) > 1e-2
    assert bool(found[0].isfinite().all())


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_gradient_that_is_not_finite_is_flagged_and_stays_there(value: float) -> None:
    both = systems()
    z, g = (torch.randn(both[0].layout.total, 13, dtype=torch.float64) for _ in range(2))
    clean, _ = adjoint_by_both(both, z, g, GMRES(), 1e-9)
    g[both[0].layout.rows_of(1)[2]] = value
    found, expected = adjoint_by_both(both, z, g, GMRES(), 1e-9)
    assert found[1].converged.tolist() == expected[1].converged.tolist() == [True, False, True, True, True, True]
    assert float(found[1].residual[1]) == float(expected[1].residual[1]) == torch.inf
    others = both[0].layout.owner != 1
    assert torch.equal(found[0][others], clean[0][others])


def test_nan_in_the_slope_is_flagged_and_stays_there() -> None:
    both = systems()
    z, g = (torch.randn(both[0].layout.total, 13, dtype=torch.float64) for _ in range(2))
    clean, _ = adjoint_by_both(both, z, g, GMRES(), 1e-9)
    with torch.no_grad():
        both[0].u[both[0].layout.rows_of(0)[4]] = torch.nan
    found, expected = adjoint_by_both(both, z, g, GMRES(), 1e-9)
    assert found[1].converged.tolist() == expected[1].converged.tolist() == [False, True, True, True, True, True]
    assert found[1].iterations.tolist() == expected[1].iterations.tolist()
    assert torch.equal(found[0].isnan(), expected[0].isnan())
    others = both[0].layout.owner != 0
    assert torch.equal(found[0][others], clean[0][others])


# Calls at once --------------------------------------------------------------------------------------------------------


def test_a_kernel_serves_several_threads_at_once() -> None:
    """As in two backward passes of one graph: each call has a problem of its own."""
    _, fused = systems(32, [20] * 8)
    points = [torch.randn(fused.layout.total, 32, dtype=torch.float64) for _ in range(4)]
    with torch.no_grad():
        slopes = [fused.linearize(z)[1] for z in points]
        expected = [slope.adjoint(z, GMRES(), 1e-9)[0] for slope, z in zip(slopes, points, strict=True)]
    evaluated = [fused.relax(fused.free(z)).residual for z in points]

    def work(n: int) -> bool:
        n %= len(points)
        with torch.no_grad():
            v = slopes[n].adjoint(points[n], GMRES(), 1e-9)[0]
            residual = fused.relax(fused.free(points[n])).residual
        return torch.equal(v, expected[n]) and torch.equal(residual, evaluated[n])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(80)))
