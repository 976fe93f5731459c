"""Probes that a deadline stops: what they return is the part that was done, and they say which part that is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import autapse
from autapse.diagnostics import (
    dual_gates,
    fixed_points,
    gates,
    gradient_flow,
    implicit_solves,
    implicit_spread,
    lesion,
    linear_memory,
    loss_gradient,
    lyapunov_exponents,
    recall,
    trajectory,
)
from autapse.diagnostics.deadline import OutOfTime, within
from autapse.models import Regressor

pytestmark = pytest.mark.usefixtures("ticking")  # each look at the clock is a second later


def test_sequences_that_had_time() -> None:
    layer, x, lengths = autapse.GRU(2, 4), torch.randn(20, 8, 2), torch.arange(13, 21)
    with within(9) as deadline:
        path = trajectory(layer, x, lengths)
    assert deadline.cut == ["4 of 8 sequences"]
    assert path.lengths.tolist() == [13, 14, 15, 16]
    torch.testing.assert_close(path.after, trajectory(layer, x, lengths).after[:, :4])


@pytest.mark.parametrize("vectors", [None, 3])
def test_gradients_over_the_lags_that_had_time(vectors: int | None) -> None:
    layer, x = autapse.GRU(2, 4, dtype=torch.float64), torch.randn(40, 3, 2, dtype=torch.float64)
    whole = gradient_flow(layer, x, lengths=[40, 6, 30], vectors=vectors)
    with within(30) as deadline:
        part = gradient_flow(layer, x, lengths=[40, 6, 30], vectors=vectors)
    lags = len(part.gain) - 1
    assert deadline.cut == [f"{lags} of 40 steps"]
    assert 6 < lags < 40
    np.testing.assert_allclose(part.gain, whole.gain[: lags + 1])


def test_lyapunov_exponents_of_the_first_steps() -> None:
    layer, x = autapse.GRU(2, 4), torch.randn(40, 3, 2)
    with within(30) as deadline:
        part = lyapunov_exponents(layer, x)
    steps = int(part.steps[0])
    assert deadline.cut == [f"{steps} of 40 steps"]
    np.testing.assert_allclose(part.exponents, lyapunov_exponents(layer, x[:steps]).exponents, rtol=1e-5)


def test_lesions_from_everywhere() -> None:
    model, x = Regressor("gru", 2, 1, hidden_size=4), torch.randn(5, 40, 2)
    whole = lesion(model, x, torch.sum)
    with within(6) as deadline:
        part = lesion(model, x, torch.sum)
    assert deadline.cut == ["4 of 40 steps"]
    assert (part.steps[0] < 12) & (part.steps[-1] == 39)
    np.testing.assert_allclose(part.score, whole.score[part.steps])


def test_starts_of_fixed_points() -> None:
    layer = autapse.RNN(1, 1, bias=False)
    torch.nn.init.constant_(layer.weight_hh_l0, 2.0)
    with within(60) as deadline:
        found = fixed_points(layer, torch.randn(50, 8, 1), at=torch.zeros(1), starts=64)
    assert found.starts % 8 == 0
    assert 0 < found.starts < 64
    assert deadline.cut == [f"{found.starts} of 64 starts"]
    assert np.tanh(2 * found.points) == pytest.approx(found.points, abs=1e-8)


def test_rows_of_the_linear_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "CHUNK", 200)
    with within(12) as deadline:
        found = linear_memory(autapse.RNN(1, 4), torch.randn(60, 4, 1), lags=range(5))
    assert deadline.cut[0].endswith("of 112 rows")
    assert found.r2[0, 0] > 0.9


def test_implicit_networks() -> None:
    layer, x = autapse.ImplicitGRU(2, 3), torch.randn(6, 8, 2)
    whole = implicit_solves(layer, x, iterations=2)
    with within(9) as deadline:
        part = implicit_solves(layer, x, iterations=2)
    assert deadline.cut == ["4 of 8 sequences"]
    assert part.lengths.tolist() == [6] * 4
    np.testing.assert_array_equal(part.evaluations, whole.evaluations[:, :4])
    with within(9):
        assert implicit_spread(layer, x).effect.shape == (6, 4)


@pytest.mark.parametrize("seconds", [0, 20, 70])
def test_results_that_have_no_parts(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first step, on the way forwards, and on the way back of the gradient."""
    monkeypatch.setattr(gates, "CHUNK", 1)
    model, x = Regressor("gru", 2, 1, hidden_size=4), torch.randn(5, 40, 2)
    with within(seconds), pytest.raises(OutOfTime):
        loss_gradient(model, x, torch.sum)
    with within(min(seconds, 30)), pytest.raises(OutOfTime):
        dual_gates(model, x)
    assert loss_gradient(model, x, torch.sum).norm.shape == (1, 40, 5)  # the hooks are gone
