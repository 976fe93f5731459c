"""Ridge regression against scikit-learn, the explicit hat matrix and refits without each fold."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.linear_model
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.readouts import Ridge
from autapse.readouts.sums import gram

PENALTIES = (1e-3, 0.1, 3.0, 100.0)


def data(rows: int = 130, features: int = 9, outputs: int = 2, shift: float = 5.0) -> tuple[Tensor, Tensor]:
    states = torch.randn(rows, features, dtype=torch.float64) @ torch.randn(features, features, dtype=torch.float64)
    targets = states[:, :outputs] - 0.3 * states[:, -outputs:] + torch.randn(rows, outputs, dtype=torch.float64)
    return states + shift, targets - 2 * shift


@pytest.mark.parametrize("penalty", [0.0, *PENALTIES])
def test_it_is_that_of_scikit_learn(penalty: float) -> None:
    states, targets = data()
    readout = Ridge(penalty).fit(states, targets)
    expected = sklearn.linear_model.Ridge(alpha=penalty).fit(states, targets)
    np.testing.assert_allclose(readout.weight, expected.coef_, rtol=1e-8)
    np.testing.assert_allclose(readout.bias, expected.intercept_, rtol=1e-8)
    np.testing.assert_allclose(readout(states), expected.predict(states), rtol=1e-8)
    several = Ridge((penalty, 1e9)).fit(states, targets)  # by eigenvalues, not by Cholesky's factors
    assert several.chosen == penalty
    np.testing.assert_allclose(several.weight, expected.coef_, rtol=1e-8)


def test_pieces_give_the_same_as_all_at_once() -> None:
    states, targets = data()
    for choose in ("gcv", 3):
        pieces = Ridge(PENALTIES, choose)
        for first in (0, 1, 60):
            last = {0: 1, 1: 60, 60: len(states)}[first]
            pieces.add(states[first:last], targets[first:last])
        whole = Ridge(PENALTIES, choose).fit(states, targets)
        np.testing.assert_allclose(pieces.solve().weight, whole.weight, rtol=1e-9)
        np.testing.assert_allclose(pieces.estimates, whole.estimates, rtol=1e-9)


def test_generalised_cross_validation() -> None:
    """n·RSS / (n − tr A)², A the matrix that maps targets to fitted values."""
    states, targets = (part.numpy() for part in data(rows=40))
    readout = Ridge(PENALTIES).fit(states, targets)
    n = len(states)
    centered = states - states.mean(0)
    expected = []
    for penalty in PENALTIES:
        hat = np.full((n, n), 1 / n)
        hat += centered @ np.linalg.inv(centered.T @ centered + penalty * np.eye(states.shape[1])) @ centered.T
        expected.append(n * np.square(targets - hat @ targets).sum() / (n - np.trace(hat)) ** 2)
    np.testing.assert_allclose(readout.estimates, expected, rtol=1e-8)
    assert readout.chosen == PENALTIES[int(np.argmin(expected))]


def test_folds() -> None:
    """Blocks of 50 rows in turn; each fold is predicted by a fit on the others."""
    states, targets = (part.numpy() for part in data(rows=230))
    readout = Ridge(PENALTIES, choose=3).fit(states, targets)
    fold = np.arange(230) // 50 % 3
    expected = []
    for penalty in PENALTIES:
        error = 0.0
        for n in range(3):
            model = sklearn.linear_model.Ridge(alpha=penalty).fit(states[fold != n], targets[fold != n])
            error += np.square(model.predict(states[fold == n]) - targets[fold == n]).sum()
        expected.append(error / 230)
    np.testing.assert_allclose(readout.estimates, expected, rtol=1e-8)


def test_relative_penalties_do_not_depend_on_the_unit_of_the_states() -> None:
    states, targets = data()
    for choose in ("gcv", 3):
        one, other = (Ridge(PENALTIES, choose, relative=True).fit(s, targets) for s in (states, 1000 * states))
        assert one.chosen == other.chosen
        np.testing.assert_allclose(one(states), other(1000 * states), rtol=1e-7)
    unit = float((states - states.mean(0)).square().sum(0).mean())
    expected = sklearn.linear_model.Ridge(alpha=0.1 * unit).fit(states, targets)
    np.testing.assert_allclose(Ridge(0.1, relative=True).fit(states, targets).weight, expected.coef_, rtol=1e-8)


def test_a_noisy_target_gets_a_larger_penalty() -> None:
    states = torch.randn(60, 40, dtype=torch.float64)
    clear = states @ torch.randn(40, 1, dtype=torch.float64)
    noise = 30 * torch.randn(60, 1, dtype=torch.float64)
    penalties = (1e-6, 1.0, 1e3)
    chosen = [Ridge(penalties).fit(states, targets).chosen for targets in (clear, clear + noise)]
    assert chosen[0] == 1e-6
    assert chosen[1] is not None
    assert chosen[1] > 1e-6


def test_states_of_any_network_and_layout() -> None:
    layer = autapse.GRU(2, 12)
    x = torch.randn(40, 3, 2)
    states = layer(x)[0]
    targets = x.roll(1, 0)
    readout = Ridge(1e-3).fit(states[5:], targets[5:])
    assert readout(states).shape == (40, 3, 2)
    assert readout(states).dtype == torch.float32
    again = Ridge(1e-3).fit(states[5:].detach().numpy(), targets[5:].numpy())
    assert torch.equal(readout.weight, again.weight)
    readout(states).sum().backward()  # a trained network can learn through its readout
    assert layer.weight_hh_l0.grad is not None


def test_large_offsets_do_not_cost_digits() -> None:
    states, targets = data()
    near, far = Ridge(0.1).fit(states, targets), Ridge(0.1).fit(states + 1e6, targets - 1e6)
    np.testing.assert_allclose(far.weight, near.weight, rtol=1e-5)


def test_a_gram_matrix_by_blocks() -> None:
    A = torch.randn(20, 600, dtype=torch.float64)
    torch.testing.assert_close(gram(A), A.T @ A)


def test_a_state_dict_has_the_weights() -> None:
    readout = Ridge(0.1).fit(*data())
    assert list(readout.state_dict()) == ["weight", "bias"]


@pytest.mark.parametrize("penalty", [0.0, (0.0, 1.0)])
def test_dependent_states(penalty: float | tuple[float, ...]) -> None:
    states, targets = data()
    with pytest.raises(InputError, match="penalty must be above 0: some states are linear combinations of others"):
        Ridge(penalty).fit(torch.cat([states, states[:, :1]], dim=1), targets)


def test_errors() -> None:
    states, targets = data()
    with pytest.raises(InputError, match=r"This Ridge has no weights yet. Call fit first."):
        Ridge()(states)
    with pytest.raises(InputError, match="targets must have one row per state, 130; got 129"):
        Ridge().fit(states, targets[1:])
    with pytest.raises(InputError, match=r"targets must have shape \(..., features\); got \(130,\)"):
        Ridge().fit(states, targets[:, 0])
    with pytest.raises(InputError, match="states must have finite values; got '1 that are NaN or infinite'"):
        Ridge().fit(states.index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(torch.nan).double()), targets)
    with pytest.raises(InputError, match="states must have at least 2 rows; got 1"):
        Ridge().fit(states[:1], targets[:1])
    with pytest.raises(InputError, match=r"states must have 9 columns, as before; got \(130, 8\)"):
        Ridge().add(states, targets).add(states[:, 1:], targets)
    with pytest.raises(InputError, match="states must have 9 features, as those of fit; got 8"):
        Ridge().fit(states, targets)(states[:, 1:])
    with pytest.raises(InputError, match="states must have rows in at least 2 of the 5 folds, of 50 rows each; got 40"):
        Ridge(PENALTIES, choose=5).fit(states[:40], targets[:40])
    with pytest.raises(InputError, match=r"penalty must be a finite number at least 0; got -1.0"):
        Ridge(-1.0)
    with pytest.raises(InputError, match=r"penalty must be a number, or several; got \(\)"):
        Ridge(())
    with pytest.raises(InputError, match="choose must be one of gcv; got 'loo'"):
        Ridge(choose="loo")
    with pytest.raises(InputError, match="choose must be an integer of at least 2; got 1"):
        Ridge(choose=1)
