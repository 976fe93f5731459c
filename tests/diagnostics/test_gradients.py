"""Spectra, gradient flow, Lyapunov exponents and gradients of a loss against closed forms and torch.autograd."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.diagnostics.diagnosis import diagnose
from autapse.diagnostics.flow import gradient_flow
from autapse.diagnostics.jacobians import jacobian_spectrum
from autapse.diagnostics.loss_gradients import loss_gradient
from autapse.diagnostics.lyapunov import lyapunov_exponents
from autapse.models import Classifier, Regressor, Tagger

D, H, T, B = 3, 5, 12, 3
DOUBLE: Any = {"dtype": torch.float64}
LENGTHS = [12, 1, 7]


def draw(steps: int = T) -> Tensor:
    return torch.randn(steps, B, D, dtype=torch.float64)


def linear(matrix: Tensor) -> autapse.RNN:
    """h' = M·h + W·x"""
    layer = autapse.RNN(D, len(matrix), nonlinearity="identity", bias=False, **DOUBLE)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(matrix)
    return layer


def orthogonal(size: int) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0]


# Spectra --------------------------------------------------------------------------------------------------------------


def test_the_spectrum_of_a_linear_network_is_that_of_its_matrix() -> None:
    matrix = torch.randn(H, H, dtype=torch.float64)
    spectrum = jacobian_spectrum(linear(matrix), draw(), LENGTHS, steps=[0, 6, 11])
    expected = np.sort(np.abs(np.linalg.eigvals(matrix.numpy())))[::-1]
    np.testing.assert_allclose(np.abs(spectrum.eigenvalues[2, 0]), expected)
    np.testing.assert_allclose(spectrum.singular_values[1, 2], np.linalg.svd(matrix.numpy(), compute_uv=False))
    np.testing.assert_allclose(spectrum.radius[0], expected[0])
    assert np.isnan(spectrum.eigenvalues[1, 1]).all(), "that sequence has one step"
    assert np.isnan(spectrum.radius[2]).tolist() == [False, True, True]


def test_time_constants_of_leaky_units() -> None:
    layer = autapse.LeakyRNN(D, H, tau=torch.tensor([2.0, 4.0, 8.0, 16.0, 32.0]), **DOUBLE)
    with torch.no_grad():
        layer.cells["l0"].weight_hh.zero_()
    found = jacobian_spectrum(layer, draw(), steps=[3]).time_constants
    np.testing.assert_allclose(np.sort(found[0, 0]), [-1 / math.log(1 - 1 / tau) for tau in (2, 4, 8, 16, 32)])


def test_the_antisymmetric_network_at_the_origin() -> None:
    """AntisymmetricRNN paper, sections 3.2 and 3.3: eigenvalues −γ ± iμ, and |1 + ελ| of the forward Euler step."""
    step, diffusion = 0.1, 0.15
    layer = autapse.Antisymmetric(D, 2, step=step, diffusion=diffusion, bias=False, **DOUBLE)
    with torch.no_grad():
        layer.cells["l0"].weight_hh.fill_(-2.0)  # the paper's W_diff
    spectrum = jacobian_spectrum(layer, torch.zeros(4, 1, D, dtype=torch.float64))
    assert spectrum.steps.tolist() == [0, 1, 2, 3]
    rates = spectrum.rates[0, 0]
    np.testing.assert_allclose(rates.real, -diffusion, atol=1e-12)
    np.testing.assert_allclose(np.abs(rates.imag), 2.0)
    np.testing.assert_allclose(spectrum.radius, math.hypot(1 - step * diffusion, 2 * step))
    with pytest.raises(InputError, match="network must be a step of a differential equation"):
        _ = jacobian_spectrum(autapse.GRU(D, H, **DOUBLE), draw()).rates


def test_few_matrices_by_default() -> None:
    found = jacobian_spectrum(autapse.GRU(2, 3), torch.randn(400, 16, 2))
    assert len(found.steps) == 32
    assert found.steps[[0, -1]].tolist() == [0, 399]
    with pytest.raises(InputError, match="steps must be an integer of at least 0 and at most 399"):
        jacobian_spectrum(autapse.GRU(2, 3), torch.randn(400, 16, 2), steps=[400])


# Gradient flow --------------------------------------------------------------------------------------------------------


def end_by_state(layer: Any, x: Tensor, t: int) -> np.ndarray:
    """∂h_T/∂h_t of one sequence [T, D], by torch.autograd."""
    carried = layer(x[:t].unsqueeze(1))[1]
    parts = carried if isinstance(carried, tuple) else (carried,)
    sizes = [part.shape[-1] for part in parts]

    def end(flat: Tensor) -> Tensor:
        state = tuple(part.view(1, 1, -1) for part in flat.split(sizes))
        h_n = layer(x[t:].unsqueeze(1), state if len(state) > 1 else state[0])[1]
        return torch.cat([part.flatten() for part in (h_n if isinstance(h_n, tuple) else (h_n,))])

    flat = torch.cat([part.flatten() for part in parts]).detach()
    return torch.autograd.functional.jacobian(end, flat).numpy()


@pytest.mark.parametrize("name", ["GRU", "LSTM", "RIN", "Antisymmetric", "ImplicitMidpoint"])
def test_products_of_jacobians(name: str) -> None:
    layer, x = getattr(autapse, name)(D, H, **DOUBLE), draw()
    flow = gradient_flow(layer, x, LENGTHS)
    for b, lag in ((0, 1), (0, 11), (2, 6)):
        expected = end_by_state(layer, x[: LENGTHS[b], b], LENGTHS[b] - lag)
        np.testing.assert_allclose(flow.gain[lag, b], np.linalg.norm(expected) / math.sqrt(len(expected)))
        values = flow.singular_values[flow.lags.tolist().index(lag), b]
        np.testing.assert_allclose(values, np.linalg.svd(expected, compute_uv=False), rtol=1e-6, atol=1e-14)
    assert np.isnan(flow.gain[:, 1]).tolist() == [False, False, *[True] * 11]
    assert np.isnan(flow.singular_values[-1, 1:]).all()
    assert (flow.gain[0] == 1).all()


def test_an_orthogonal_network_keeps_every_gradient() -> None:
    layer = autapse.OrthogonalRNN(D, H, nonlinearity="identity", **DOUBLE)
    flow = gradient_flow(layer, draw(60))
    np.testing.assert_allclose(flow.gain, 1)
    np.testing.assert_allclose(flow.singular_values, 1)
    assert flow.reach() == 60
    assert flow.rate == pytest.approx(1)


def test_a_shrinking_network_and_its_reach() -> None:
    """0.5ᵗ far below the smallest float32: the products are scaled."""
    layer = autapse.RNN(D, H, nonlinearity="identity", bias=False)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(0.5 * torch.eye(H))
    flow = gradient_flow(layer, torch.randn(300, 2, D))
    np.testing.assert_allclose(flow.typical, 0.5 ** np.arange(301.0), rtol=1e-4)
    assert flow.reach(0.01) == 6
    assert flow.rate == pytest.approx(0.5, rel=1e-5)


def test_a_network_that_passes_no_gradient() -> None:
    """Every ReLU is at 0: no gradient, and no difference of states, survives one step."""
    layer = autapse.IRNN(D, H, **DOUBLE)
    with torch.no_grad():
        layer.cells["l0"].bias_h.fill_(-100)
    for vectors in (None, 3):
        flow = gradient_flow(layer, draw(), vectors=vectors)
        assert (flow.gain[0] == 1).all()
        assert (flow.gain[1:] == 0).all()
        assert (flow.reach(), flow.rate) == (0, 0.0)
    exponents = lyapunov_exponents(layer, draw())
    assert exponents.maximal == -math.inf
    assert math.isnan(exponents.standard_error)
    numbers = {f.name: f for f in diagnose(Regressor(layer, D, 1, **DOUBLE), draw().transpose(0, 1)).findings}
    assert numbers["lyapunov"].value == -math.inf
    assert numbers["flat_activations"].value == 1


def test_vectors_estimate_the_gain() -> None:
    layer, x = autapse.GRU(D, H, **DOUBLE), draw()
    exact, estimate = gradient_flow(layer, x, LENGTHS), gradient_flow(layer, x, LENGTHS, vectors=4000)
    np.testing.assert_allclose(estimate.gain, exact.gain, rtol=0.1)
    assert estimate.lags.size == 0
    single = autapse.LeakyRNN(D, 1, **DOUBLE)  # of one unit there is only one direction
    np.testing.assert_allclose(gradient_flow(single, x, vectors=1).gain, gradient_flow(single, x).gain)


# Lyapunov exponents ---------------------------------------------------------------------------------------------------


def test_exponents_of_a_linear_network_are_logarithms_of_moduli() -> None:
    moduli, basis = torch.tensor([1.1, 0.8, 0.5, 0.2], dtype=torch.float64), orthogonal(4)
    layer = linear(basis @ moduli.diag() @ basis.T)
    found = lyapunov_exponents(layer, draw(400), [400, 300, 30], skip=100)
    np.testing.assert_allclose(found.exponents[:2], np.log(moduli.numpy())[None].repeat(2, 0), atol=1e-9)
    assert found.steps.tolist() == [300, 200, 0]
    assert np.isnan(found.exponents[2]).all()
    assert found.maximal == pytest.approx(math.log(1.1))
    assert found.standard_error == pytest.approx(0, abs=1e-10)


def test_exponents_sum_to_the_mean_logarithm_of_the_determinant() -> None:
    layer, x = autapse.GRU(D, H, **DOUBLE), draw()
    found = lyapunov_exponents(layer, x)
    logs = [sum(np.linalg.slogdet(end_by_state(layer, x[: t + 1, b], t))[1] for t in range(1, T)) for b in range(B)]
    first = [np.linalg.slogdet(layer.cells["l0"].jacobian(x[0, b]).detach().numpy())[1] for b in range(B)]
    np.testing.assert_allclose(found.exponents.sum(1), (np.array(logs) + first) / T)


# Gradients of a loss --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_gradient_of_a_loss_by_the_states(cell: str) -> None:
    model = Regressor(cell, D, 1, hidden_size=H, **DOUBLE)
    x, y = draw().transpose(0, 1), torch.randn(B, 1, dtype=torch.float64)
    loss = lambda output: (output - y).square().mean()
    found = loss_gradient(model, x, loss, LENGTHS)
    assert found.loss == pytest.approx(float(loss(model(x, LENGTHS)).detach()))
    for b, t in ((0, 0), (0, 8), (2, 6)):
        cut = x[b : b + 1, : LENGTHS[b]]
        carried = model.layer(cut[:, : t + 1])[1]
        parts = [part.detach().requires_grad_() for part in (carried if isinstance(carried, tuple) else (carried,))]
        state = tuple(parts) if len(parts) > 1 else parts[0]
        final = model.layer(cut[:, t + 1 :], state)[1] if t + 1 < LENGTHS[b] else state
        value = (model.head(model.layer.final_output(final)) - y[b]).square().sum() / B
        gradients = torch.autograd.grad(value, parts, allow_unused=True)
        expected = math.sqrt(sum(float(g.square().sum()) for g in gradients if g is not None))
        assert found.norm[0, t, b] == pytest.approx(expected)
    assert (found.norm[0, 7:, 2] == 0).all()


def test_the_gradient_by_a_lower_layer_and_by_the_other_direction() -> None:
    """By a change of one state, from which all that depends on it is computed again."""
    model = Tagger("gru", D, 2, hidden_size=H, num_layers=2, bidirectional=True, **DOUBLE)
    x, t, layer = draw()[:, :1], 4, model.layer
    found = loss_gradient(model, x.transpose(0, 1), lambda output: output.square().sum())
    both = autapse.GRU(D, H, bidirectional=True, **DOUBLE)
    both.load_state_dict({name: p for name, p in layer.state_dict().items() if "_l0" in name})
    above = autapse.GRU(2 * H, H, bidirectional=True, **DOUBLE)
    own = {name.replace("_l1", "_l0"): p for name, p in layer.state_dict().items() if "_l1" in name}
    above.load_state_dict(own)
    output = both(x)[0].detach()
    for direction, key in enumerate(("l0", "l0_reverse")):
        cell = both.cells[key]
        state = output[t, :, direction * H : (direction + 1) * H].clone().requires_grad_()
        rows, h = list(output[:, :, direction * H : (direction + 1) * H].unbind(0)), state
        rows[t] = state
        for n in range(t - 1, -1, -1) if direction else range(t + 1, T):
            h = cell(x[n], h)
            rows[n] = h
        other = output[:, :, H:] if direction == 0 else output[:, :, :H]
        parts = (torch.stack(rows), other) if direction == 0 else (other, torch.stack(rows))
        value = model.head(above(torch.cat(parts, dim=-1))[0]).square().sum()
        expected = float(torch.autograd.grad(value, state)[0].norm())
        assert found.norm[direction, t, 0] == pytest.approx(expected)


@pytest.mark.parametrize(
    "cell", ["skiprnn:cell=lstm", "dilated:cell=gru", "phasedlstm:time=input:periods=(1.0,9.0)", "intersection"]
)
def test_loss_gradient_with_states_that_differ_or_are_not_learned(cell: str) -> None:
    """A count of steps and a time have no gradient, and layers of a stack may carry different numbers of states."""
    model, x = Regressor(cell, D, 1, hidden_size=H, num_layers=2, **DOUBLE), draw().transpose(0, 1)
    found = loss_gradient(model, x, lambda output: output.square().sum(), LENGTHS)
    assert found.loss == pytest.approx(float(model(x, LENGTHS).square().sum().detach()))
    assert found.norm.shape == (2, T, B)
    assert (found.norm[1, [11, 0, 6], [0, 1, 2]] > 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: loss_gradient(autapse.GRU(D, H), draw(), torch.sum), "model must be a model with a head; got 'GRU'"),
        (
            lambda: loss_gradient(Classifier("gru", D, 2, hidden_size=4, **DOUBLE), draw(), lambda output: output),
            "loss must return a single number that depends on the output; got (12, 2)",
        ),
        (lambda: gradient_flow(autapse.GRU(D, H, **DOUBLE), draw(), vectors=0), "vectors must be an integer of at"),
        (lambda: gradient_flow(autapse.RNN(D, 1025), torch.zeros(1, 1, D)), "Use gradient_flow(..., vectors=8)"),
        (lambda: lyapunov_exponents(autapse.GRU(D, H, **DOUBLE), draw(), count=6), "count must be an integer of at"),
        (lambda: lyapunov_exponents(autapse.GRU(D, H, **DOUBLE), draw(), skip=12), "skip must be an integer of at"),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()
