"""Logistic regression against scikit-learn's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.linear_model
import torch

from autapse.checks import InputError
from autapse.readouts import Logistic


@pytest.mark.parametrize("penalty", [0.1, 1.0, 30.0])
def test_it_is_that_of_scikit_learn(penalty: float) -> None:
    """On states that are standardised already. Three classes, so that both are the multinomial one."""
    classes = torch.arange(90) % 3
    states = torch.randn(90, 5, dtype=torch.float64) + classes[:, None]
    states = (states - states.mean(0)) / states.std(0, correction=0)
    readout = Logistic(penalty).fit(states, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        expected = sklearn.linear_model.LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=5000)
        expected.fit(states.numpy(), classes.numpy())
    np.testing.assert_allclose(readout.predict_proba(states), expected.predict_proba(states.numpy()), atol=1e-5)
    assert readout.predict(states).tolist() == expected.predict(states.numpy()).tolist()


def test_the_scale_of_states_does_not_matter() -> None:
    classes = torch.arange(60) % 2
    states = torch.randn(60, 4, dtype=torch.float64) + classes[:, None]
    scale = torch.tensor([1e-3, 1.0, 20.0, 1e4], dtype=torch.float64)
    one, other = Logistic().fit(states, classes), Logistic().fit(7 + scale * states, classes)
    np.testing.assert_allclose(one.predict_proba(states), other.predict_proba(7 + scale * states), atol=1e-6)


def test_a_constant_state_and_layouts() -> None:
    states = torch.cat([torch.randn(5, 6, 2), torch.ones(5, 6, 1)], dim=2)
    classes = (states[..., 0] > 0).long()
    readout = Logistic(0.01).fit(states, classes, count=4)
    assert readout(states).shape == (5, 6, 4)
    assert (readout.predict(states) == classes).float().mean() > 0.9


@pytest.mark.parametrize("block", [1, 4])
def test_the_penalty_is_that_of_scikit_learn_by_cross_validation(block: int) -> None:
    """Folds written again: within each class, blocks of rows go to the folds in turn, one fold later for each class."""
    classes = torch.randint(0, 3, (70,)).sort().values
    states = torch.randn(70, 8, dtype=torch.float64) + 0.7 * classes[:, None]
    penalties = (0.01, 100.0, 1.0, 10.0)
    readout = Logistic(penalties, folds=4, block=block).fit(states, classes)
    folds, seen = np.empty(70, dtype=int), [0, 0, 0]
    for n, c in enumerate(classes.tolist()):
        folds[n] = (c + seen[c] // block) % 4
        seen[c] += 1
    H, y, losses = states.numpy(), classes.numpy(), []
    for penalty in penalties:
        total = 0.0
        for fold in range(4):
            old, new = folds != fold, folds == fold
            mean, scale = H[old].mean(0), H[old].std(0)
            truth = sklearn.linear_model.LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=5000)
            truth.fit((H[old] - mean) / scale, y[old])
            chances = truth.predict_proba((H[new] - mean) / scale)
            total -= np.log(chances[range(len(chances)), y[new]]).sum()
        losses.append(total / 70)
    np.testing.assert_allclose(readout.losses, losses, rtol=1e-3)
    assert readout.chosen == penalties[int(np.argmin(readout.losses))]
    alone = Logistic(readout.chosen).fit(states, classes)
    np.testing.assert_allclose(readout.weight, alone.weight, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("classes", [[0, 1], [0, 0, 1], [0, 0, 0]])
def test_few_rows(classes: list[int]) -> None:
    readout = Logistic((1.0, 0.1)).fit(torch.randn(len(classes), 3), classes, count=2)
    assert readout.chosen in (1.0, 0.1)


def test_rounding_is_not_taken_for_information() -> None:
    """A state that is constant up to rounding has no weight to speak of."""
    classes = torch.arange(40) % 2
    states = torch.randn(40, 2, dtype=torch.float64) + classes[:, None]
    constant = 0.1 * (1 + 1e-15 * classes[:, None].double())
    readout = Logistic(0.1).fit(torch.cat([states, constant], dim=1), classes)
    assert float(readout.weight[:, 2].abs().max()) < 1.0  # type: ignore[index]


def test_errors() -> None:
    states = torch.randn(4, 2)
    with pytest.raises(InputError, match="classes must have one entry per state, 4; got 3"):
        Logistic().fit(states, [0, 1, 0])
    with pytest.raises(InputError, match="classes must be from 0 to 1; got 2"):
        Logistic().fit(states, [0, 1, 0, 2], count=2)
    with pytest.raises(InputError, match="classes must be integers from 0; got -1"):
        Logistic().fit(states, [-1, -1, -1, -1])
    with pytest.raises(InputError, match="states must have at least 1 row; got 0"):
        Logistic().fit(states[:0], [])
    with pytest.raises(InputError, match=r"penalty must be a finite number at least 0"):
        Logistic(-1)
    with pytest.raises(InputError, match=r"penalty must be a number, or several; got \(\)"):
        Logistic(())
    with pytest.raises(InputError, match="folds must be an integer of at least 2; got 1"):
        Logistic((1.0, 2.0), folds=1)
    with pytest.raises(InputError, match="states must have at least 2 rows, to choose among penalties; got 1"):
        Logistic((1.0, 2.0)).fit(states[:1], [0])
