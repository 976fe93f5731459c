"""Implicit solves and spread, saturation and linear memory, against the reports, autograd and closed forms."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import autapse
from autapse import solve
from autapse.checks import InputError
from autapse.diagnostics.classes import discrimination
from autapse.diagnostics.estimation import iterative_estimation
from autapse.diagnostics.implicit import implicit_solves, implicit_spread
from autapse.diagnostics.plots import draw_solves
from autapse.diagnostics.recall import linear_memory
from autapse.diagnostics.units import saturation

D, H, T, B = 3, 4, 10, 3
DOUBLE: Any = {"dtype": torch.float64}


def draw(*shape: int) -> Tensor:
    return torch.randn(*(shape or (T, B)), D, dtype=torch.float64)


@pytest.mark.parametrize("batch_first", [False, True])
def test_solves_are_those_of_a_layer_with_that_solver(batch_first: bool) -> None:
    layer, lengths = autapse.ImplicitGRU(D, H, batch_first=batch_first, **DOUBLE), [10, 4, 4]
    x = draw(B, T) if batch_first else draw()
    solvers = {"plain": solve.FixedPoint(), "quasi": solve.Tridiagonal()}
    found = implicit_solves(layer, x, lengths, solvers, tolerance=1e-6, iterations=5)
    for n, solver in enumerate(solvers.values()):
        same = autapse.ImplicitGRU(D, H, batch_first=batch_first, solver=solver, tolerance=1e-6, **DOUBLE)
        same.load_state_dict(layer.state_dict())
        same.eval()(x, lengths=lengths)
        report = same.reports[0]
        np.testing.assert_array_equal(found.evaluations[n], report.evaluations)
        assert found.converged[n].all()
    assert np.isnan(found.residual[:, 0]).all(), "the start is zero"
    assert (np.diff(found.residual[:, 2:], axis=1) <= 0).all(), "the smallest residual so far"
    by_length = found.by_length("plain")
    assert by_length == {4: found.evaluations[0, 1:].mean(), 10: found.evaluations[0, 0]}
    assert implicit_solves(layer, x, lengths, iterations=1).solvers == ("fixed point", "anderson", "newton")


def test_a_sequence_without_steps_has_no_residual() -> None:
    found = implicit_solves(autapse.ImplicitGRU(D, H, **DOUBLE), draw(), [10, 0, 4], iterations=3)
    assert np.isnan(found.residual[:, :, 1]).all()
    assert np.isfinite(found.residual[:, 2:, [0, 2]]).all()
    low = draw_solves(found).collections[0].get_paths()[0].vertices[:, 1].min()  # of the band
    assert low >= 0.99 * found.residual[0, 2:, [0, 2]].min()


@pytest.mark.parametrize("name", ["ImplicitGRU", "GRU"])
def test_the_spread_is_the_derivative_of_the_outputs(name: str) -> None:
    options: Any = {"tolerance": 1e-12} if name == "ImplicitGRU" else {}
    layer, x, at = getattr(autapse, name)(D, H, **options, **DOUBLE).eval(), draw(), 4
    found = implicit_spread(layer, x, at, lengths=[10, 7, 5], size=1e-5)
    change = torch.randn(x.shape[1:], generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    change = change / change.norm(dim=1, keepdim=True)
    lengths = [10, 7, 5]
    jacobian = torch.autograd.functional.jacobian(
        lambda row: layer(torch.cat([x[:at], row[None], x[at + 1 :]]), lengths=lengths)[0], x[at]
    )  # [T, B, H, B, D]
    expected = torch.stack([jacobian[:, b, :, b] @ change[b] for b in range(B)], dim=1).norm(dim=2)
    for b, length in enumerate(lengths):
        np.testing.assert_allclose(found.effect[:length, b], expected[:length, b], rtol=1e-3, atol=1e-8)
        assert np.isnan(found.effect[length:, b]).all()
    assert found.offset.tolist() == list(range(-4, 6))
    left, right = found.reach(1e-6)
    assert right > 0
    assert (left > 0) == (name == "ImplicitGRU")


# Saturation -----------------------------------------------------------------------------------------------------------


def test_shares_of_flat_activations_and_gates_by_hand() -> None:
    layer, x, lengths = autapse.GRU(D, H, **DOUBLE), 4 * draw(), [10, 3, 0]
    with torch.no_grad():
        layer.bias_ih_l0[H : 2 * H] += torch.tensor([9.0, -9.0, 0.0, 0.0])
    found = saturation(layer, x, lengths, threshold=0.1)
    W, R = layer.weight_ih_l0.detach(), layer.weight_hh_l0.detach()
    b, c = layer.bias_ih_l0.detach(), layer.bias_hh_l0.detach()
    flat, carry, states = [], [], []
    for n, length in enumerate(lengths):
        h = torch.zeros(H, dtype=torch.float64)
        for t in range(length):
            a, r = W @ x[t, n] + b, R @ h + c
            reset, z = torch.sigmoid(a[:H] + r[:H]), torch.sigmoid(a[H : 2 * H] + r[H : 2 * H])
            new = torch.tanh(a[2 * H :] + reset * r[2 * H :])
            h = (1 - z) * new + z * h
            flat.append(1 - new**2 < 0.1)
            carry.append(z)
            states.append(h)
    rows = torch.stack(carry)
    np.testing.assert_allclose(found.flat, torch.stack(flat).double().mean(0))
    np.testing.assert_allclose(found.carry_open, (rows > 0.9).double().mean(0))
    np.testing.assert_allclose(found.carry_closed, (rows < 0.1).double().mean(0))
    np.testing.assert_allclose(found.mean, torch.stack(states).mean(0))
    np.testing.assert_allclose(found.deviation, torch.stack(states).numpy().std(0))


def test_dead_units() -> None:
    layer = autapse.IRNN(D, H, **DOUBLE)
    with torch.no_grad():
        layer.cells["l0"].bias_h[1] = -1e6
        layer.cells["l0"].weight_ih.abs_()
    found = saturation(layer, draw().abs())
    assert found.dead.tolist() == [False, True, False, False]
    assert found.flat is not None
    assert found.flat[1] == 1
    deep = saturation(autapse.Deep(D, H, **DOUBLE), draw())
    assert deep.flat is deep.carry_open is deep.carry_closed is None


# Linear memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequences", [1, 6])
def test_a_delay_line_remembers_as_many_steps_as_it_has_units(sequences: int) -> None:
    layer = autapse.RNN(1, 5, nonlinearity="identity", bias=False, **DOUBLE)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(torch.diag(torch.ones(4, dtype=torch.float64), -1))
        layer.weight_ih_l0.copy_(torch.eye(5, 1, dtype=torch.float64))
    x = torch.randn(600, sequences, 1, dtype=torch.float64)
    lengths = None if sequences == 1 else [600, 600, 400, 600, 300, 600]
    found = linear_memory(layer, x, lengths, lags=range(10))
    np.testing.assert_allclose(found.r2[:5], 1, atol=1e-6)
    assert (np.abs(found.r2[5:]) < 0.1).all()
    assert found.capacity == pytest.approx(5, abs=0.3)
    assert found.reach() == 4


def test_linear_memory_against_least_squares_of_numpy() -> None:
    layer, x = autapse.GRU(D, H, **DOUBLE), draw(60, 4)
    found = linear_memory(layer, x, lags=[0, 3], ridge=0.0)
    states = layer(x)[0].detach().numpy()
    for n, lag in enumerate((0, 3)):
        A = [np.concatenate([states[3:, b] for b in part]) for part in ((0, 2), (1, 3))]
        Y = [np.concatenate([x[3 - lag : 60 - lag, b].numpy() for b in part]) for part in ((0, 2), (1, 3))]
        designs = [np.hstack([a, np.ones((len(a), 1))]) for a in A]
        weights = np.linalg.lstsq(designs[0], Y[0], rcond=None)[0]
        error = ((Y[1] - designs[1] @ weights) ** 2).sum(0)
        np.testing.assert_allclose(found.r2[n], 1 - error / ((Y[1] - Y[1].mean(0)) ** 2).sum(0), rtol=1e-6)
    constant = linear_memory(layer, torch.ones(20, 2, D, dtype=torch.float64))
    assert np.isnan(constant.r2).all()
    assert constant.reach() == -1
    assert len(constant.lags) == 11


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: implicit_solves(autapse.GRU(D, H), draw()), "network must be one layer that looks ahead"),
        (
            lambda: implicit_solves(autapse.ImplicitGRU(D, H, **DOUBLE), draw(), solvers={}),
            "solvers must have at least",
        ),
        (
            lambda: implicit_spread(autapse.GRU(D, H), draw(), 4, [10, 10, 3]),
            "position must be an integer of at least 0",
        ),
        (lambda: saturation(autapse.GRU(D, H, **DOUBLE), draw(), threshold=0.6), "threshold must be a finite number"),
        (
            lambda: linear_memory(autapse.GRU(D, H, **DOUBLE), draw(), lags=[]),
            "lags must be a list of at least one integer",
        ),
        (lambda: linear_memory(autapse.GRU(D, H, **DOUBLE), draw(9, 1), lags=[8]), "x must have two sequences, or"),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()


def test_states_of_an_implicit_network() -> None:
    """Probes that read states only, against the outputs of the layer."""
    layer, x, lengths = autapse.ImplicitGRU(D, H, **DOUBLE).eval(), draw(), [10, 4, 7]
    output = layer(x, lengths=lengths)[0].detach()
    valid = torch.cat([output[:n, b] for b, n in enumerate(lengths)]).numpy()
    np.testing.assert_allclose(saturation(layer, x, lengths).deviation, valid.std(0))
    ends = output[[9, 3, 6], range(B)]
    to_end = iterative_estimation(layer, x, lengths).to_end
    np.testing.assert_allclose(to_end[0], (output[0] - ends).mean())
    classes = discrimination(layer, x, [0, 0, 1], lengths)
    np.testing.assert_allclose(classes.within[3], (output[3, 0] - output[3, 1]).norm())
    assert linear_memory(layer, x, lags=[0]).r2.shape == (1, D)
