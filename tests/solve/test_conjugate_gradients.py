import itertools

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import LinearOperator, cg

from autapse.solve.conjugate_gradients import conjugate_gradients


def system(size=30):
    root = torch.randn(size, size, dtype=torch.float64)
    return root @ root.T + torch.eye(size).double(), torch.randn(size, dtype=torch.float64)


@pytest.mark.parametrize("steps", [1, 2, 5, 12])
def test_the_iterates_are_scipys(steps):
    matrix, right = system()
    start, diagonal = torch.randn(30, dtype=torch.float64), matrix.diagonal() ** 0.75
    found = conjugate_gradients(lambda v: matrix @ v, right, start, diagonal, steps, progress=0.0)[-1]
    inverse = LinearOperator((30, 30), lambda v: v / diagonal.numpy())
    expected, _ = cg(matrix.numpy(), right.numpy(), start.numpy(), rtol=0.0, atol=0.0, maxiter=steps, M=inverse)
    assert found.step == steps
    np.testing.assert_allclose(found.x.numpy(), expected, rtol=1e-7, atol=1e-9)
    assert found.value == pytest.approx(float(0.5 * found.x @ matrix @ found.x - right @ found.x), rel=1e-9)


def test_it_solves_the_system_and_keeps_some_iterates():
    matrix, right = system()
    kept = conjugate_gradients(lambda v: matrix @ v, right, torch.zeros(30).double(), matrix.diagonal(), 500, 0.0)
    torch.testing.assert_close(kept[-1].x, torch.linalg.solve(matrix, right), rtol=1e-6, atol=1e-8)
    numbers = [iterate.step for iterate in kept]
    assert numbers[:8] == [1, 2, 3, 4, 6, 8, 11, 15]
    values = [iterate.value for iterate in kept]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))


def test_it_stops_when_there_is_no_progress():
    matrix, right = system()
    kept = conjugate_gradients(lambda v: matrix @ v, right, torch.zeros(30).double(), matrix.diagonal(), 500)
    assert 10 < kept[-1].step < 60


def test_an_exact_start_has_no_iterates():
    matrix, right = system()
    start = torch.linalg.solve(matrix, right)
    exact = conjugate_gradients(lambda v: right if v is start else matrix @ v, right, start, matrix.diagonal(), 9)
    assert exact == []
