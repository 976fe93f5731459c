"""The ERNN paper's inexact Newton method, against closed forms and SciPy's roots."""

from __future__ import annotations

import math
import re

import pytest
import scipy.optimize
import torch
from torch import Tensor

from autapse.checks import InputError
from autapse.solve import Equations, FixedPoint, InexactNewton
from tolerance import close


def matrices(eigenvalues: list[list[float]]) -> Tensor:
    """Symmetric matrices with these eigenvalues, one per problem."""
    found = []
    for values in eigenvalues:
        Q, _ = torch.linalg.qr(torch.randn(len(values), len(values), dtype=torch.float64))
        found.append(Q @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ Q.T)
    return torch.stack(found)


def linear(A: Tensor, b: Tensor) -> Equations:
    return Equations(lambda z, A, b: torch.bmm(A, z[:, :, None])[:, :, 0] + b, A, b, start=torch.zeros_like(b))


def test_linear_problems_where_f_contracts_and_where_only_small_or_negative_steps_do() -> None:
    """‖I + η·(A − I)‖ < 1 for some η needs the eigenvalues of A − I on one side of zero."""
    A = matrices([[0.5, -0.3, 0.1], [-9.0, -4.0, 0.5], [3.0, 5.0, 1.5], [0.99, 0.9, -0.9]])
    b = torch.randn(4, 3, dtype=torch.float64)
    z, report = InexactNewton(rtol=1e-12).solve(linear(A, b))
    assert report.all_converged, report.words()
    expected = torch.linalg.solve(torch.eye(3) - A, b)
    torch.testing.assert_close(z, expected, rtol=1e-8, atol=1e-10)
    assert report.finished_by == ("inexact newton",) * 4
    assert not bool(FixedPoint(rtol=1e-12).solve(linear(A, b))[1].converged[1:3].any()), "no easier method would do"


def test_nonlinear_problems_from_afar() -> None:
    a = torch.linspace(0.5, 30.0, 20, dtype=torch.float64)[:, None]
    # arctan's Newton iteration diverges from here; z = a − 5·atan(z)
    z, report = InexactNewton(rtol=1e-13).solve(Equations(lambda z, a: a - 5 * torch.atan(z), a))
    assert report.all_converged
    expected = [scipy.optimize.brentq(lambda s, v=v: v - 5 * math.atan(s) - s, -50, 50) for v in a[:, 0].tolist()]
    torch.testing.assert_close(z[:, 0], torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6)


def test_a_fixed_eta_is_the_papers_iteration() -> None:
    A, b = matrices([[0.5, -0.3, 0.1]]), torch.randn(1, 3, dtype=torch.float64)
    system = linear(A, b)
    z, report = InexactNewton(eta=0.3, max_iterations=6, rtol=0.0).solve(system)
    expected = torch.zeros_like(b)
    for _ in range(5):  # five steps between six evaluations
        expected = 0.7 * expected + 0.3 * (expected @ A[0].T + b)
    close(z, expected)
    assert report.converged.tolist() == [False]
    assert report.evaluations.tolist() == [6.0]


def test_a_problem_does_not_depend_on_its_batch() -> None:
    A = matrices([[0.5, -0.3], [-9.0, 0.5], [3.0, 1.5]])
    b = torch.randn(3, 2, dtype=torch.float64)
    together, report = InexactNewton(rtol=1e-10).solve(linear(A, b))
    for n in range(3):
        alone, one = InexactNewton(rtol=1e-10).solve(linear(A[n : n + 1], b[n : n + 1]))
        close(together[n], alone[0])
        assert int(one.iterations) == int(report.iterations[n])


def test_no_solution_and_no_number() -> None:
    z, report = InexactNewton(max_iterations=40).solve(Equations(lambda z, b: z + b, torch.ones(1, 2)))
    assert not report.all_converged
    assert z.isfinite().all()
    b = torch.tensor([[1.0], [torch.nan]])
    z, report = InexactNewton(max_iterations=40).solve(Equations(lambda z, b: 0.5 * z + b, b))
    assert report.converged.tolist() == [True, False]
    torch.testing.assert_close(z[0], torch.tensor([2.0]), rtol=1e-3, atol=0)


def test_bad_eta() -> None:
    with pytest.raises(InputError, match=re.escape("eta must be a finite number; got inf.")):
        InexactNewton(eta=float("inf"))
