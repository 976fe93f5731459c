"""The spectral radius against numpy's eigenvalues, and where there is none to find."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from autapse.checks import InputError
from autapse.solve import spectral_radius


def entries(units: int, per_row: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    columns = np.stack([rng.choice(units, per_row, replace=False) for _ in range(units)])
    pattern = np.stack([np.repeat(np.arange(units), per_row), columns.reshape(-1)])
    return torch.from_numpy(rng.uniform(-1, 1, pattern.shape[1])), torch.from_numpy(pattern)


def dense(values: Tensor, pattern: Tensor, units: int) -> np.ndarray:
    matrix = np.zeros((units, units))
    matrix[pattern[0], pattern[1]] = values
    return matrix


@pytest.mark.parametrize(("units", "per_row"), [(1, 1), (7, 3), (60, 60), (200, 5), (201, 5), (300, 1), (400, 40)])
def test_it_is_the_largest_eigenvalue(units: int, per_row: int) -> None:
    values, pattern = entries(units, per_row)
    matrix = dense(values, pattern, units)
    expected = np.abs(np.linalg.eigvals(matrix)).max()
    assert spectral_radius(values, pattern, units) == pytest.approx(expected, rel=1e-8)
    assert spectral_radius(torch.from_numpy(matrix)) == pytest.approx(expected, rel=1e-8)
    assert spectral_radius(torch.from_numpy(matrix).float()) == pytest.approx(expected, rel=1e-5)


def test_a_large_sparse_matrix() -> None:
    values, pattern = entries(2000, 8)
    # All eigenvalues: for some first vectors, scipy.sparse.linalg.eigs misses the largest one.
    expected = np.abs(np.linalg.eigvals(dense(values, pattern, 2000))).max()
    assert spectral_radius(values, pattern, 2000) == pytest.approx(expected, rel=1e-8)


def test_no_iteration_converges_on_a_ring() -> None:
    """All eigenvalues have the same absolute value, so all of them are computed."""
    ring = torch.eye(250).roll(1, 0)
    assert spectral_radius(3 * ring) == pytest.approx(3.0, rel=1e-10)


def test_several_components() -> None:
    blocks = torch.block_diag(torch.full((1, 1), -5.0), torch.rand(260, 260) / 260, torch.zeros(3, 3))
    assert spectral_radius(blocks) == pytest.approx(5.0, rel=1e-10)


@pytest.mark.parametrize("units", [1, 2, 30, 300])
def test_without_a_cycle_it_is_exactly_zero(units: int) -> None:
    """In any order of the units; a solver for eigenvalues finds a number here that grows with the units."""
    order = torch.randperm(units)
    nilpotent = torch.triu(torch.rand(units, units), diagonal=1)[order][:, order]
    assert spectral_radius(nilpotent) == 0.0
    if units > 1:
        nilpotent[order.argsort()[-1], order.argsort()[0]] = 1.0  # from the last back to the first
        assert spectral_radius(nilpotent) > 0.0


def test_entries_that_are_zero_are_not_there() -> None:
    assert spectral_radius(torch.zeros(4, 4)) == 0.0
    pattern = torch.tensor([[0, 1], [1, 0]])
    assert spectral_radius(torch.tensor([1.0, 0.0]), pattern, 2) == 0.0
    assert spectral_radius(torch.tensor([4.0, 1.0]), pattern, 2) == pytest.approx(2.0)


def test_errors() -> None:
    with pytest.raises(InputError, match=r"matrix must be square and have at least one row; got \(2, 3\)"):
        spectral_radius(torch.zeros(2, 3))
    with pytest.raises(InputError, match="matrix must have finite values"):
        spectral_radius(torch.tensor([[float("nan")]]))
    with pytest.raises(InputError, match=r"pattern must have shape \(2, m\) for \(3,\) entries; got \(2, 2\)"):
        spectral_radius(torch.ones(3), torch.zeros(2, 2, dtype=torch.int64), 5)
    with pytest.raises(InputError, match="pattern must have rows and columns from 0 to 1"):
        spectral_radius(torch.ones(1), torch.tensor([[0], [2]]), 2)
    with pytest.raises(InputError, match="size must be an integer of at least 1"):
        spectral_radius(torch.ones(1), torch.tensor([[0], [0]]))
