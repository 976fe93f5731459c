"""Recursive least squares against the direct solution after every state."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autapse.checks import InputError
from autapse.readouts import RecursiveLeastSquares


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_the_weights_are_those_of_a_direct_solution(forgetting: float) -> None:
    penalty = 0.3
    rng = np.random.default_rng(int(torch.randint(1000, ())))
    states, targets = rng.normal(size=(12, 4)), rng.normal(size=(12, 2))
    rows = np.concatenate([states, np.ones((12, 1))], axis=1)
    readout = RecursiveLeastSquares(penalty, forgetting)
    expected = np.zeros((5, 2))
    for n in range(12):
        error = readout.update(torch.from_numpy(states[n]), torch.from_numpy(targets[n]))
        np.testing.assert_allclose(error, targets[n] - rows[n] @ expected, rtol=1e-9, atol=1e-11)
        weight = forgetting ** np.arange(n, -1, -1.0)
        matrix = (rows[: n + 1] * weight[:, None]).T @ rows[: n + 1]
        matrix += forgetting ** (n + 1) * penalty * np.eye(5)
        expected = np.linalg.solve(matrix, (rows[: n + 1] * weight[:, None]).T @ targets[: n + 1])
        np.testing.assert_allclose(readout.weight, expected[:4].T, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(readout.bias, expected[4], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(readout.inverse, np.linalg.inv(matrix), rtol=1e-7, atol=1e-10)


def test_pieces_continue() -> None:
    states, targets = torch.randn(20, 3), torch.randn(20, 1)
    whole = RecursiveLeastSquares().fit(states, targets)
    pieces = RecursiveLeastSquares().add(states[:7], targets[:7]).add(states[7:], targets[7:])
    assert torch.equal(whole.weight, pieces.weight)
    assert torch.equal(whole.fit(states, targets).weight, pieces.weight)  # fit starts again


def test_it_follows_a_change() -> None:
    """With forgetting, the weights after a change are those of the new rule."""
    states = torch.randn(400, 2, dtype=torch.float64)
    targets = torch.where(torch.arange(400) < 200, 1.0, -1.0)[:, None] * states[:, :1]
    forgets = RecursiveLeastSquares(forgetting=0.95).fit(states, targets)
    remembers = RecursiveLeastSquares().fit(states, targets)
    assert float(forgets.weight[0, 0]) == pytest.approx(-1.0, abs=1e-3)
    assert abs(float(remembers.weight[0, 0])) < 0.3


def test_errors() -> None:
    with pytest.raises(InputError, match=r"forgetting must be a finite number above 0 and at most 1; got 1.1"):
        RecursiveLeastSquares(forgetting=1.1)
    with pytest.raises(InputError, match="penalty must be a finite number above 0; got 0"):
        RecursiveLeastSquares(penalty=0)
    with pytest.raises(InputError, match="states must have 3 columns, as before"):
        RecursiveLeastSquares().add(torch.randn(2, 3), torch.randn(2, 1)).add(torch.randn(2, 4), torch.randn(2, 1))
