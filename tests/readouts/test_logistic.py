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
