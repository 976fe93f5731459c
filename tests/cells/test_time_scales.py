"""Delays and leaky units: how far gradients reach, and the three ways to write a leaky unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import autapse
from autapse.diagnostics.paths import shortest_path
from autapse.layers.registry import make_layer
from autapse.unfold import scan_fused, scan_reference
from native.kernels import needs_kernels
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


# Clockwork ----------------------------------------------------------------------------------------------------------


def test_a_group_changes_only_when_it_is_due() -> None:
    layer = autapse.Clockwork(D, 8, periods=(1, 2, 4, 8), dtype=torch.float64)
    output = layer(draw(T, B, D), start=3)[0].detach()
    for g, period in enumerate((1, 2, 4, 8)):
        units = output[:, :, 2 * g : 2 * g + 2]
        for t in range(1, T):
            changed = bool((units[t] != units[t - 1]).any())
            assert changed == ((3 + t) % period == 0)


def test_a_slow_group_never_reads_a_fast_one() -> None:
    layer = autapse.Clockwork(D, 4, periods=(1, 3), dtype=torch.float64)
    h0 = draw(1, B, 4).requires_grad_()
    output, _ = layer(draw(T, B, D), h0)
    (gradient,) = torch.autograd.grad(output[..., 2:].sum(), h0)
    assert not gradient[..., :2].any()
    assert gradient[..., 2:].all()


@needs_kernels
@pytest.mark.parametrize("seed", range(12))
def test_groups_one_after_the_other_are_the_steps(seed: int) -> None:
    """Any periods, nested or not, from any position, with one length or several: values, two derivatives."""
    rng = np.random.default_rng(seed)
    periods = tuple(int(period) for period in rng.choice([1, 2, 3, 4, 6, 8, 12], rng.integers(1, 5)))
    cell = autapse.cells.Clockwork(D, 7, periods=periods, dtype=torch.float64)
    batch, steps, start = (int(n) for n in rng.integers((1, 1, 0), (4, 20, 10)))
    sizes = [batch] * steps if seed % 3 else sorted(rng.integers(0, batch + 1, steps).tolist(), reverse=True)
    x, h0 = draw(sum(sizes), D).requires_grad_(), draw(batch, 7).requires_grad_()
    inputs, results = [x, h0, *cell.parameters()], []
    for scan in (scan_fused, scan_reference):
        (h,), (h_n,) = scan(cell, x, (h0,), sizes, start)
        loss = (h.square() * torch.linspace(-1, 2, h.numel()).view_as(h)).sum() + h_n.square().sum()
        first = torch.autograd.grad(loss, inputs, create_graph=True, materialize_grads=True)
        second = torch.autograd.grad(
            torch.stack([g.square().sum() for g in first]).sum(), inputs, materialize_grads=True
        )
        results.append([h, h_n, *first, *second])
    close(*results)


def test_a_clockwork_of_one_period_is_the_plain_network() -> None:
    layer, plain = autapse.Clockwork(D, H, periods=(1,), dtype=torch.float64), autapse.RNN(D, H, dtype=torch.float64)
    own = dict(layer.cells["l0"].named_parameters())
    with torch.no_grad():
        plain.weight_ih_l0.copy_(own["weight_ih"])
        plain.weight_hh_l0.copy_(own["weight_hh_0"])
        plain.bias_ih_l0.copy_(own["bias_h"])
        plain.bias_hh_l0.zero_()
    x = draw(T, B, D)
    close(layer(x), plain(x))


@pytest.mark.parametrize("lengths", [None, [24, 9, 0, 17]], ids=["even", "ragged"])
def test_a_clockwork_in_pieces(lengths: list[int] | None) -> None:
    options = {"periods": (2, 3, 8), "num_layers": 2, "bidirectional": True, "dtype": torch.float64}
    layers = [autapse.Clockwork(D, 7, **options), autapse.Clockwork(D, 7, checkpoint_every=5, **options)]
    layers[1].load_state_dict(layers[0].state_dict())  # pieces of 5 steps start at other positions
    x, h0, results = draw(T, 4, D), draw(4, 4, 7), []
    for layer in layers:
        output, h_n = layer(x, h0, lengths=lengths)
        results.append([output, h_n, *torch.autograd.grad(output.square().sum(), layer.parameters())])
    close(results[0], results[1])


def test_slow_groups_make_short_paths() -> None:
    layer = autapse.Clockwork(D, 8, periods=(1, 2, 4, 8))
    assert shortest_path(layer, lag=64).maps == 1 + 64 // 8  # from a slow unit to itself, at each of its changes
    assert shortest_path(layer, lag=5).maps == 1  # held by a slow unit, which is a part of the output


# A window of inputs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [None, [24, 2, 0, 17]], ids=["even", "ragged"])
def test_a_time_delay_network_is_a_causal_convolution(lengths: list[int] | None) -> None:
    window = 5
    layer, x = autapse.TimeDelay(D, H, window=window, nonlinearity="identity", dtype=torch.float64), draw(T, 4, D)
    cell = layer.cells["l0"]
    kernel = cell.weight_ih.view(window, H, D).permute(1, 2, 0).flip(2)  # the oldest input first
    padded = torch.nn.functional.pad(x.permute(1, 2, 0), (window - 1, 0))
    expected = torch.nn.functional.conv1d(padded, kernel, cell.bias_h).permute(2, 0, 1)
    output, _ = layer(x, lengths=lengths)
    for b, length in enumerate(lengths or [T] * 4):
        close(output[:length, b], expected[:length, b])


def test_an_input_is_forgotten_after_the_window() -> None:
    layer, x = autapse.TimeDelay(D, H, window=4, depth=2), torch.randn(T, B, D, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x)[0][10].sum(), x)
    assert [t for t in range(T) if gradient[t].any()] == [7, 8, 9, 10]
    assert shortest_path(layer, lag=3).maps == 2
    assert shortest_path(layer, lag=4).maps is None


@pytest.mark.parametrize("first", [1, 3, 9])
def test_pieces_and_streams_of_a_window(first: int) -> None:
    layer, x = autapse.TimeDelay(D, H, window=6, num_layers=2, depth=2, dtype=torch.float64), draw(T, B, D)
    whole, h_n = layer(x)
    one, carried = layer(x[:first])
    two, end = layer(x[first:], carried)
    close(torch.cat([one, two]), whole)
    close(end, h_n)
    stream = layer.stream(B)
    close(torch.stack([stream(x_t) for x_t in x]), whole.detach())


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
