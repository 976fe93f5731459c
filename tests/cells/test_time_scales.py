"""Delays and leaky units: how far gradients reach, and the three ways to write a leaky unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import autapse
from autapse.diagnostics.paths import shortest_path
from autapse.layers.registry import make_layer
from tolerance import close

D, H, T, B = 2, 3, 24, 2


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def linear(delays: tuple[int, ...]) -> autapse.Delayed:
    layer = autapse.Delayed(D, H, cell="rnn:nonlinearity=identity", delays=delays, dtype=torch.float64)
    with torch.no_grad():
        layer.cells["l0"].weight_delayed.mul_(0.7)
    return layer


def companion(layer: autapse.Delayed, delays: tuple[int, ...]) -> np.ndarray:
    """The matrix from all carried states to those of the next step, in numpy."""
    cell, reach = layer.cells["l0"], max(delays)
    matrix = np.eye(reach * H, k=-H)
    matrix[:H] = 0
    weights = [cell.inner.weight_hh, *cell.weight_delayed]
    for delay, weight in zip(sorted(delays), weights, strict=True):
        matrix[:H, (delay - 1) * H : delay * H] = weight.detach().numpy()
    return matrix


@pytest.mark.parametrize("delays", [(1, 3), (1, 2, 5), (4, 6)], ids=str)
def test_gradients_of_a_linear_network_are_powers_of_the_companion_matrix(delays: tuple[int, ...]) -> None:
    layer, lag = linear(delays), 3 * max(delays)
    h0 = tuple(draw(1, 1, H).requires_grad_() for _ in range(max(delays)))
    output, _ = layer(torch.zeros(lag, 1, D, dtype=torch.float64), h0)
    power = np.linalg.matrix_power(companion(layer, delays), lag)[:H]
    for unit in range(H):
        gradients = torch.autograd.grad(output[-1, 0, unit], h0, retain_graph=True)
        close(torch.cat([g[0, 0] for g in gradients]), torch.from_numpy(power[unit]))


def test_a_delay_of_d_makes_the_gradient_that_of_t_over_d_steps() -> None:
    """With the delay alone, ∂h_T/∂h_{T−kd} = R^k, and nothing reaches in between."""
    delay, steps = 5, 4
    layer = linear((delay, 2 * steps * delay))  # the second delay is longer than the sequence
    h0 = tuple(draw(1, 1, H).requires_grad_() for _ in range(2 * steps * delay))
    output, _ = layer(torch.zeros(steps * delay, 1, D, dtype=torch.float64), h0)
    R = layer.cells["l0"].inner.weight_hh.detach()
    rows = [torch.autograd.grad(output[-1, 0, unit], h0[:delay], retain_graph=True) for unit in range(H)]
    for ago in range(delay):
        expected = torch.linalg.matrix_power(R, steps) if ago == 0 else torch.zeros_like(R)
        close(torch.stack([row[ago][0, 0] for row in rows]), expected)


def test_the_shortest_path_has_as_many_maps_as_delays_fit() -> None:
    assert shortest_path(autapse.RNN(D, H), lag=20).maps == 21
    assert shortest_path(autapse.Delayed(D, H, delays=(1, 5)), lag=20).maps == 1 + 20 // 5
    assert shortest_path(autapse.Delayed(D, H, delays=(1, 5)), lag=23).maps == 1 + 20 // 5 + 3
    assert shortest_path(autapse.Delayed(D, H, delays=(4, 8)), lag=7).maps is None  # no sum of delays is 7


def test_the_jacobian_is_the_companion_matrix() -> None:
    delays = (1, 2, 4)
    layer = linear(delays)
    jacobian = layer.cells["l0"].jacobian(draw(B, D), tuple(draw(B, H) for _ in range(4)))
    close(jacobian.detach(), torch.from_numpy(companion(layer, delays)).expand(B, -1, -1))


def test_delays_inside_a_deep_cell_and_through_the_command_line() -> None:
    layer = make_layer("deep:cell=(delayed:delays=(1,3)):transition_depth=0:output_depth=1", D, H)
    x = torch.randn(T, B, D)
    whole, h_n = layer(x)
    first, carried = layer(x[:7])
    second, end = layer(x[7:], carried)
    close(torch.cat([first, second]), whole)
    close(end, h_n)
    named = make_layer("delayed:cell=(leakyrnn:tau=5.0):delays=(1,5,20)", D, H)
    assert repr(named) == f"Delayed({D}, {H}, cell='leakyrnn:tau=5.0', delays=(1, 5, 20))"


def test_second_derivatives_of_delays() -> None:
    layer, x = autapse.Delayed(D, H, delays=(1, 2), dtype=torch.float64), draw(4, B, D).requires_grad_()
    parameters = list(layer.parameters())
    (gradient,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
    found = torch.autograd.grad(gradient.square().sum(), parameters)
    step = 1e-6
    for parameter, value in zip(parameters, found, strict=True):
        direction = torch.randn_like(parameter)
        slopes = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * step * direction)
            (moved,) = torch.autograd.grad(layer(x)[0].square().sum(), x)
            slopes.append(moved.square().sum())
            with torch.no_grad():
                parameter.add_(-sign * step * direction)
        expected = (slopes[0] - slopes[1]) / (2 * step)
        torch.testing.assert_close((value * direction).sum(), expected, rtol=1e-5, atol=1e-6)


# Leaky units --------------------------------------------------------------------------------------------------------


def test_a_large_time_constant_averages_or_sums() -> None:
    """With R = 0 and W = 1 the state is a weighted mean of the past, or with form="sum" its weighted sum."""
    tau, x = 4.0, draw(T, 1, 1)
    weights = torch.tensor([(1 - 1 / tau) ** k for k in range(T)], dtype=torch.float64)
    for form, scale in (("state", 1 / tau), ("sum", 1.0), ("pre-activation", 1 / tau)):
        layer = autapse.LeakyRNN(1, 1, tau=tau, form=form, nonlinearity="identity", dtype=torch.float64)
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                parameter.fill_(1.0 if name.endswith("weight_ih") else 0.0)
        close(layer(x)[0][-1, 0, 0].detach(), scale * (weights * x.flip(0)[:, 0, 0]).sum())


def test_the_pre_activation_is_a_linear_map_of_the_state() -> None:
    """For one τ both writings describe one network: s_t = R·h_t + (the drive, averaged in the same way)."""
    tau, units = 3.0, 4
    options = {"tau": tau, "bias": False, "dtype": torch.float64}
    layer = autapse.LeakyRNN(D, units, form="pre-activation", **options)
    cell = layer.cells["l0"]
    x, f, h = draw(T, D), torch.zeros(units, dtype=torch.float64), torch.zeros(units, dtype=torch.float64)
    _, _, [(states,)] = layer(x, return_states=True)
    for t in range(T):
        h = (1 - 1 / tau) * h + torch.tanh(cell.weight_hh @ h + f) / tau
        f = (1 - 1 / tau) * f + cell.weight_ih @ x[t] / tau
        close(states[t, 0], cell.weight_hh @ h + f)


def test_time_constants_of_groups() -> None:
    spaced = autapse.cells.LeakyRNN(D, 8, tau=(1.0, 64.0), groups=4).time_constants()
    torch.testing.assert_close(spaced, torch.tensor([1.0, 1, 4, 4, 16, 16, 64, 64]))
    given = autapse.cells.LeakyRNN(D, 7, tau=(2.0, 3.0, 50.0), learn_tau=True).time_constants()
    torch.testing.assert_close(given, torch.tensor([2.0, 2, 2, 3, 3, 50, 50]))
    drawn = autapse.cells.LeakyRNN(D, 200, tau=(2.0, 50.0)).time_constants()
    assert len(drawn.unique()) > 100
