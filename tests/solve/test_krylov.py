"""GMRES and BiCGStab against SciPy and dense factorisations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from lines import chain
from torch import Tensor

from autapse.solve import GMRES, BiCGStab, LinearReport, LinearSolver, Matrices, Operator, Resolvent
from autapse.solve.system import Groups
from tolerance import close


def matrices(
    count: int = 5, n: int = 8, spread: float = 0.2, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    A = torch.eye(n, dtype=torch.float64) + spread * torch.randn(count, n, n, dtype=torch.float64)
    return A.to(dtype), torch.randn(count, n, dtype=torch.float64).to(dtype)


class Counted(Matrices):
    """Matrices that count their products."""

    products = 0

    def mv(self, v: Tensor) -> Tensor:
        self.products += 1
        return super().mv(v)


class Preconditioned(Matrices):
    def __init__(self, matrices: Tensor, approximate: Tensor) -> None:
        super().__init__(matrices)
        self.approximate = approximate

    def precondition(self) -> object:
        return lambda v: torch.linalg.solve(self.approximate, v.unsqueeze(2)).squeeze(2)


class Scattered(Operator):
    """Dense matrices whose unknowns lie in rows of one number each, shuffled."""

    def __init__(self, matrices: Tensor, order: Tensor) -> None:
        count, n, _ = matrices.shape
        self.matrices, self.order = matrices, order
        self.groups = Groups(count, torch.arange(count).repeat_interleave(n)[order])

    def scatter(self, v: Tensor) -> Tensor:  # [B, n] -> [N, 1]
        return v.flatten()[self.order].unsqueeze(1)

    def gather(self, rows: Tensor) -> Tensor:
        v = torch.empty_like(rows[:, 0])
        v[self.order] = rows[:, 0]
        return v.view(self.matrices.shape[:2])

    def mv(self, v: Tensor) -> Tensor:
        return self.scatter((self.matrices @ self.gather(v).unsqueeze(2)).squeeze(2))


SOLVERS = [GMRES(), BiCGStab(), BiCGStab(shared=True)]
ALONE = [GMRES(), BiCGStab()]


def scipys_best(A: Tensor, b: Tensor, m: int) -> Tensor:
    """The best of SciPy's first m iterates, which is what BiCGStab returns: its residual goes up and down."""
    iterates = [np.zeros(len(b))]
    keep = lambda x: iterates.append(x.copy())
    scipy.sparse.linalg.bicgstab(A.numpy(), b.numpy(), rtol=0.0, maxiter=m, callback=keep)
    return torch.from_numpy(min(iterates, key=lambda x: np.linalg.norm(b.numpy() - A.numpy() @ x)))


def assert_solved(solver: LinearSolver, report: LinearReport, x: Tensor, A: Tensor, b: Tensor, rtol: float) -> None:
    """‖x − A⁻¹·b‖ ≤ ‖A⁻¹‖·‖b − A·x‖, where A is the matrix of the whole batch and the residual is rtol·‖b‖."""
    if not (isinstance(solver, BiCGStab) and solver.shared):  # which has one tolerance for the whole batch
        assert bool(report.converged.all())
    exact, inverse = torch.linalg.solve(A.double(), b.flatten().double()), torch.linalg.inv(A.double())
    rounding = 100 * torch.finfo(x.dtype).eps
    bound = (rtol + rounding) * float(torch.linalg.matrix_norm(inverse, 2)) * float(b.norm())
    assert float((x.flatten() - exact).norm()) <= bound


@pytest.mark.parametrize("m", [1, 3, 5])
def test_gmres_is_that_of_scipy_after_m_steps(m: int) -> None:
    A, b = matrices()
    x, report = GMRES(rtol=0.0, max_iterations=m).solve(Matrices(A), b)
    for n in range(len(A)):
        expected, _ = scipy.sparse.linalg.gmres(A[n].numpy(), b[n].numpy(), rtol=0.0, restart=m, maxiter=1)
        close(x[n], torch.from_numpy(expected))
    left = torch.linalg.vector_norm(b - (A @ x.unsqueeze(2)).squeeze(2), dim=1) / torch.linalg.vector_norm(b, dim=1)
    close(report.residual, left)
    assert report.evaluations.tolist() == [m] * 5


@pytest.mark.parametrize("m", [1, 2, 4])
def test_bicgstab_is_that_of_scipy_after_m_steps(m: int) -> None:
    A, b = matrices(spread=0.05)
    x, report = BiCGStab(rtol=0.0, max_iterations=m).solve(Matrices(A), b)
    for n in range(len(A)):
        close(x[n], scipys_best(A[n], b[n], m))
    assert report.evaluations.tolist() == [2 * m] * 5


def test_shared_bicgstab_is_that_of_scipy_on_one_block_diagonal_matrix() -> None:
    A, b = matrices(spread=0.05)
    x, report = BiCGStab(shared=True, rtol=0.0, max_iterations=3).solve(Matrices(A), b)
    close(x.flatten(), scipys_best(torch.block_diag(*A), b.flatten(), 3))
    alone, _ = BiCGStab(rtol=0.0, max_iterations=3).solve(Matrices(A), b)
    assert not torch.allclose(x, alone, rtol=1e-6)
    assert report.iterations.tolist() == [3] * 5


def test_sharing_scalars_costs_iterations() -> None:
    A, b = matrices(20, spread=0.3)
    _, shared = BiCGStab(shared=True, rtol=1e-8).solve(Matrices(A), b)
    _, alone = BiCGStab(rtol=1e-8).solve(Matrices(A), b)
    assert bool(alone.converged.all())
    assert int(shared.iterations.max()) > int(alone.iterations.max())


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_solutions_are_those_of_a_factorisation(solver: LinearSolver, dtype: torch.dtype) -> None:
    A, b = matrices(spread=0.1, dtype=dtype)
    rtol = 1e-6 if dtype == torch.float32 else 1e-12
    x, report = solver.solve(Matrices(A), b, rtol=rtol)
    assert x.dtype == dtype
    assert_solved(solver, report, x, torch.block_diag(*A), b, rtol)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_rows_may_be_scattered(solver: LinearSolver) -> None:
    A, b = matrices(spread=0.1)
    operator = Scattered(A, torch.randperm(A.shape[0] * A.shape[1]))
    x, report = solver.solve(operator, operator.scatter(b), rtol=1e-12)
    plain, other = solver.solve(Matrices(A), b, rtol=1e-12)
    close(operator.gather(x), plain)
    assert report.iterations.tolist() == other.iterations.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gmres_ends_after_as_many_steps_as_there_are_unknowns(dtype: torch.dtype) -> None:
    A, b = matrices(n=6, spread=1.0, dtype=dtype)
    _, report = GMRES(rtol=1e-5 if dtype == torch.float32 else 1e-12).solve(Matrices(A), b)
    assert bool(report.converged.all())
    assert report.iterations.tolist() == [6] * 5


def test_gmres_ends_after_as_many_steps_as_there_are_eigenvalues() -> None:
    A = torch.diag_embed(
        torch.tensor([[1.0, 1, 1, 1, 1, 1], [1, 1, 2, 2, 1, 2], [1, 2, 3, 1, 2, 3]], dtype=torch.float64)
    )
    x, report = GMRES(rtol=0.0).solve(Matrices(A), torch.ones(3, 6, dtype=torch.float64))
    assert report.iterations.tolist() == [1, 2, 3]  # the space is exhausted, so that it stops with rtol = 0 as well
    close(x, 1 / A.diagonal(dim1=1, dim2=2))


@pytest.mark.parametrize("solver", ALONE, ids=repr)
def test_a_perfect_preconditioner_needs_one_step(solver: LinearSolver) -> None:
    A, b = matrices(spread=0.3)
    x, report = solver.solve(Preconditioned(A, A), b, rtol=1e-12)
    assert report.iterations.tolist() == [1] * 5
    close(x, torch.linalg.solve(A, b.unsqueeze(2)).squeeze(2))


@pytest.mark.parametrize("solver", ALONE, ids=repr)
def test_preconditioning_is_from_the_right(solver: LinearSolver) -> None:
    """So that the residual that is reported is that of the system, not of the preconditioned one."""
    A, b = matrices(spread=0.3)
    near = A + 0.1 * torch.randn_like(A)
    x, report = solver.solve(Preconditioned(A, near), b, rtol=1e-3)
    true = torch.linalg.vector_norm(b - (A @ x.unsqueeze(2)).squeeze(2), dim=1) / torch.linalg.vector_norm(b, dim=1)
    close(report.residual, true)
    _, plain = solver.solve(Matrices(A), b, rtol=1e-3)
    assert float(report.iterations.double().mean()) < float(plain.iterations.double().mean())


@pytest.mark.parametrize("solver", ALONE, ids=repr)
def test_each_problem_is_solved_as_if_alone(solver: LinearSolver) -> None:
    A, b = matrices(6, spread=0.2)
    A[2], A[4] = torch.eye(8), 3 * A[4]
    x, report = solver.solve(Matrices(A), b, rtol=1e-9)
    assert len(set(report.iterations.tolist())) > 1
    for n in range(len(A)):
        alone, other = solver.solve(Matrices(A[n : n + 1]), b[n : n + 1], rtol=1e-9)
        close(x[n], alone[0])
        assert other.iterations[0] == report.iterations[n]
        assert other.evaluations[0] == report.evaluations[n]


@pytest.mark.parametrize("solver", ALONE, ids=repr)
@pytest.mark.parametrize("spoiled", ["nan matrix", "nan side", "inf side", "huge", "singular"])
def test_a_hopeless_problem_disturbs_no_other(solver: LinearSolver, spoiled: str) -> None:
    A, b = matrices(4)
    expected, clean = solver.solve(Matrices(A), b, rtol=1e-9)
    A, b = A.clone(), b.clone()
    if spoiled == "nan matrix":
        A[1] = torch.nan
    elif spoiled == "nan side":
        b[1, 0] = torch.nan
    elif spoiled == "inf side":
        b[1, 0] = torch.inf
    elif spoiled == "huge":
        A[1] *= 1e300
        b[1] *= 1e100
    else:
        A[1] = 0.0
    x, report = solver.solve(Matrices(A), b, rtol=1e-9)
    others = torch.tensor([0, 2, 3])
    close(x[others], expected[others])
    assert report.iterations[others].tolist() == clean.iterations[others].tolist()
    assert report.converged.tolist() == [True, False, True, True]
    assert x[1].tolist() == [0.0] * 8
    assert float(report.residual[1]) >= 1.0


@pytest.mark.parametrize("solver", ALONE, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_singular_matrix_does_not_pass_for_solved(solver: LinearSolver, dtype: torch.dtype) -> None:
    """Its range has not the right side, so that the residual is at least the part outside."""
    A = torch.diag_embed(torch.tensor([[1.0, 2, 3, 0]], dtype=dtype))
    b = torch.tensor([[1.0, 1, 1, 1]], dtype=dtype)
    x, report = solver.solve(Matrices(A), b, rtol=1e-3)
    assert not bool(report.converged[0])
    assert float(report.residual[0]) >= 0.5 - 1e-6
    assert float(report.residual[0]) <= 1.0
    assert bool(torch.isfinite(x).all())
    if isinstance(solver, GMRES):
        assert int(report.iterations[0]) == 4  # the space is exhausted then, and more products would add nothing


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_problems_that_are_not_asked_for_stay_zero(solver: LinearSolver) -> None:
    A, b = matrices(4)
    A[1], b[3] = torch.nan, torch.nan
    active = torch.tensor([True, False, True, False])
    x, report = solver.solve(Matrices(A[active]), b[active], rtol=1e-9)
    masked, other = solver.solve(Matrices(A.nan_to_num(0.5)), b, rtol=1e-9, active=active)
    close(masked[active], x)
    assert other.iterations[active].tolist() == report.iterations.tolist()
    assert masked[~active].abs().max() == 0
    assert other.iterations[~active].tolist() == other.evaluations[~active].tolist() == [0, 0]
    assert bool(other.converged.all())


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_right_side_of_zero_costs_nothing(solver: LinearSolver) -> None:
    A, b = matrices(3)
    operator = Counted(A)
    x, report = solver.solve(operator, torch.zeros_like(b), rtol=0.0)
    assert operator.products == 0
    assert x.abs().max() == 0
    assert report.converged.all()
    assert report.residual.tolist() == [0.0] * 3


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_no_problems_and_no_iterations(solver: LinearSolver) -> None:
    A, b = matrices(3)
    x, report = solver.solve(Matrices(A[:0]), b[:0])
    assert x.shape == (0, 8)
    assert len(report.converged) == 0
    x, report = type(solver)(max_iterations=0).solve(Matrices(A), b)
    assert x.abs().max() == 0
    assert report.converged.tolist() == [False] * 3
    assert report.residual.tolist() == [1.0] * 3


@pytest.mark.parametrize("solver", ALONE, ids=repr)
def test_each_problem_may_have_its_own_tolerance(solver: LinearSolver) -> None:
    A, b = matrices(2, spread=0.1)
    A[1], b[1] = A[0], b[0]
    _, report = solver.solve(Matrices(A), b, rtol=torch.tensor([1e-1, 1e-10], dtype=torch.float64))
    assert report.iterations[0] < report.iterations[1]
    assert 1e-10 < float(report.residual[0]) <= 1e-1
    assert float(report.residual[1]) <= 1e-10
    _, own = type(solver)(rtol=1e-1).solve(Matrices(A), b, rtol=1e-10)
    assert own.iterations.tolist() == [int(report.iterations[0])] * 2  # a solver's own tolerance goes first


def test_bicgstab_keeps_the_best_iterate() -> None:
    A, b = matrices(30, n=20, spread=0.6)
    residuals = []
    for m in range(1, 15):
        x, report = BiCGStab(rtol=0.0, max_iterations=m).solve(Matrices(A), b)
        true = torch.linalg.vector_norm(b - (A @ x.unsqueeze(2)).squeeze(2), dim=1) / torch.linalg.vector_norm(b, dim=1)
        close(report.residual, true)
        residuals.append(true)
    history = torch.stack(residuals)
    assert bool((history.diff(dim=0) <= 0).all())
    assert bool((history.diff(dim=0) == 0).any())  # it did get worse in between


def test_bicgstab_survives_a_breakdown() -> None:
    """(r, A·r) = 0 for a rotation by a right angle: the first scalar would be divided by zero."""
    A = torch.tensor([[[0.0, 1.0], [-1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    x, report = BiCGStab().solve(Matrices(A), torch.ones(2, 2, dtype=torch.float64))
    assert report.converged.tolist() == [False, True]
    assert float(report.residual[0]) == 1.0
    close(x, torch.tensor([[0.0, 0.0], [0.5, 1.0]], dtype=torch.float64))
    gmres, _ = GMRES().solve(Matrices(A), torch.ones(2, 2, dtype=torch.float64))
    close(gmres[0], torch.tensor([-1.0, 1.0], dtype=torch.float64))


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_resolvents_of_a_chain(solver: LinearSolver, transposed: bool, preconditioned: bool) -> None:
    system = chain()
    z = torch.randn_like(system.x)
    _, slope = system.linearize(z)
    A = torch.eye(z.numel(), dtype=z.dtype) - slope.dense()
    b = torch.randn_like(z)
    operator = Resolvent(slope, transposed, preconditioned)
    assert (operator.precondition() is None) == (not preconditioned)
    x, report = solver.solve(operator, b, rtol=1e-12)
    assert_solved(solver, report, x, A.T if transposed else A, b, 1e-12)


def test_non_contiguous_sides() -> None:
    A, b = matrices(5, n=5)
    x, _ = GMRES(rtol=1e-12).solve(Matrices(A.mT), b.T)
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(A.mT.numpy(), b.T.numpy()[..., None])[..., 0], rtol=1e-9)
