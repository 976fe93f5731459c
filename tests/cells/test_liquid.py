"""Liquids: the equation unit by unit, what is drawn, and the surrogate derivative."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

import autapse
from autapse.cells.liquid import fires
from autapse.cells.wiring import grid, squared_distances
from autapse.checks import InputError
from tolerance import close

D, H = 3, 12


def layer(units: int = H, **options: Any) -> Any:
    return autapse.Liquid(D, units, dtype=torch.float64, **options)


def matrix_of(cell: Any) -> Tensor:
    """R as a dense matrix."""
    dense = torch.zeros(cell.hidden_size, cell.hidden_size, dtype=torch.float64)
    for value, row, column in zip(cell.weight_hh, *cell.pattern.tolist(), strict=True):
        dense[row, column] = value.item()
    return dense


def by_hand(cell: Any, x: Tensor) -> tuple[list[list[float]], list[list[float]]]:
    """The spikes and the traces of one sequence, unit by unit, as the equation says. x is [T, D]."""
    n, R = cell.hidden_size, matrix_of(cell)
    potential, waits, trace = [0.0] * n, [0] * n, [0.0] * n
    fired, spikes, traces = [0.0] * n, [], []
    for values in x.tolist():
        new = []
        for i in range(n):
            if waits[i] > 0:
                waits[i] -= 1
                potential[i] = 0.0
                new.append(0.0)
                continue
            if fired[i]:
                potential[i] = 0.0
            kept = math.exp(-1 / cell.potential_tau[i].item())
            current = sum(cell.weight_ih[i, d].item() * values[d] for d in range(len(values))) + cell.bias_h[i].item()
            current += sum(R[i, j].item() for j in range(n) if fired[j])
            potential[i] = kept * potential[i] + current
            new.append(1.0 if potential[i] >= 1 else 0.0)
            if new[i]:
                waits[i] = cell.refractory
        fired = new
        keep = math.exp(-1 / cell.trace)
        trace = [keep * s + (1 - keep) * z for s, z in zip(trace, fired, strict=True)]
        spikes.append(fired)
        traces.append(trace)
    return spikes, traces


@pytest.mark.parametrize("refractory", [0, 1, 3])
@pytest.mark.parametrize("tau", [5.0, (2.0, 40.0)])
def test_a_layer_is_its_equation(refractory: int, tau: Any) -> None:
    x = torch.randn(40, 3, D, dtype=torch.float64)
    for read in ("traces", "spikes"):
        made = layer(refractory=refractory, tau=tau, read=read, trace=7.0, recurrent_scaling=0.5)
        output, _ = made(x, lengths=[40, 25, 1])
        for n, length in enumerate((40, 25, 1)):
            spikes, traces = by_hand(made.cells["l0"], x[:length, n])
            close(output[:length, n], torch.tensor(spikes if read == "spikes" else traces, dtype=torch.float64))
            assert n == 2 or 0 < sum(map(sum, spikes)) < length * H


def test_pieces_and_streams_are_exact() -> None:
    x, made = torch.randn(30, 2, D, dtype=torch.float64), layer()
    whole, end = made(x)
    first, carried = made(x[:13])
    second, last = made(x[13:], carried)
    close(torch.cat([first, second]), whole)
    close(last, end)
    stream = made.stream(2)
    close(torch.stack([stream(x_t) for x_t in x]), whole)


def test_a_unit_alone_fires_at_the_known_rate() -> None:
    """With constant input u, v after k steps is u·(1 − λᵏ)/(1 − λ): it reaches 1 after a known number of steps."""
    made = autapse.Liquid(1, 1, bias=False, tau=20.0, refractory=4, read="spikes", dtype=torch.float64)
    made.cells["l0"].weight_ih.fill_(1.0)
    u, kept = 0.1, math.exp(-1 / 20)
    steps = math.ceil(math.log(1 - (1 - kept) / u) / math.log(kept))
    spikes = made(torch.full((200, 1, 1), u, dtype=torch.float64))[0][:, 0, 0].nonzero().flatten()
    assert spikes[0] == steps - 1
    assert set(spikes.diff().tolist()) == {steps + 4}


# What is drawn --------------------------------------------------------------------------------------------------------


def test_wiring() -> None:
    cell = layer(343).cells["l0"]
    R, places = matrix_of(cell), grid(343)
    assert (R != 0).sum(1).tolist() == [10] * 343
    assert not R.diagonal().any()
    distance = squared_distances(places, places).sqrt()
    assert float(distance[R != 0].mean()) < 0.6 * float(distance.mean())
    inhibits, excites = (R < 0).any(0), (R > 0).any(0)
    assert not (inhibits & excites).any()
    assert int(inhibits.sum()) == pytest.approx(69, abs=2)  # of 20 %; some units may be read by none
    positive, negative = cell.weight_hh[cell.weight_hh > 0], -cell.weight_hh[cell.weight_hh < 0]
    assert scipy.stats.kstest(positive.numpy(), scipy.stats.expon(scale=0.2).cdf).pvalue > 1e-4
    assert scipy.stats.kstest(negative.numpy(), scipy.stats.expon(scale=0.8).cdf).pvalue > 1e-4


def test_inputs_and_biases() -> None:
    cell = layer(3000, input_scaling=[0.5, 1.0, 2.0], input_connections=0.25, bias_scaling=0.1, connections=0).cells[
        "l0"
    ]
    for column, bound in zip(cell.weight_ih.T, (0.5, 1.0, 2.0), strict=True):
        read = column[column != 0]
        assert scipy.stats.binomtest(len(read), 3000, 0.25).pvalue > 1e-4
        assert scipy.stats.kstest(read.numpy(), scipy.stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-4
    assert scipy.stats.kstest(cell.bias_h.numpy(), scipy.stats.uniform(0, 0.1).cdf).pvalue > 1e-4


def test_the_same_seed_gives_the_same_weights_and_a_state_dict_has_all() -> None:
    made = []
    for _ in range(2):
        torch.manual_seed(3)
        made.append(layer(tau=(2.0, 30.0)))
    x = torch.randn(20, 2, D, dtype=torch.float64)
    assert torch.equal(made[0](x)[0], made[1](x)[0])
    other = layer(tau=(2.0, 30.0))
    assert not torch.equal(other(x)[0], made[0](x)[0])
    other.load_state_dict(made[0].state_dict())
    assert torch.equal(other(x)[0], made[0](x)[0])
    assert not list(other.parameters())


# The surrogate derivative ---------------------------------------------------------------------------------------------


def test_spikes_are_exact_and_have_the_derivative_of_the_fast_sigmoid() -> None:
    a = torch.linspace(-3, 3, 601, dtype=torch.float32, requires_grad=True)
    z = fires(a, 7.0)
    assert torch.equal(z.detach(), (a >= 0).float())
    (slope,) = torch.autograd.grad(z.sum(), a)
    close(slope, 1 / (1 + 7 * a.detach().abs()) ** 2)


def test_the_gradient_is_that_of_the_smooth_network_at_the_spikes() -> None:
    """Replace each spike z by z₀ + s(a) − s(a₀), with z₀ and a₀ of the actual run: a smooth function of these values.

    Finite differences of it are the surrogate gradient of the whole sequence.
    """
    made = layer(5, learn=True, tau=4.0, refractory=1, trace=3.0, slope=3.0, input_connections=1.0)
    cell, x = made.cells["l0"], 2 * torch.randn(8, 1, D, dtype=torch.float64)
    keep, kept = math.exp(-1 / 3), math.exp(-1 / 4)
    seen: list[Tensor] = []

    def smooth(W: Tensor, values: Tensor, b: Tensor, recorded: list[Tensor] | None) -> Tensor:
        R = torch.zeros(5, 5, dtype=torch.float64).index_put(tuple(cell.pattern), values)
        v, z, s, total = (torch.zeros(5, dtype=torch.float64) for _ in range(4))
        wait = torch.zeros(5, dtype=torch.float64)
        for t in range(len(x)):
            awake = (wait <= 0).double()
            v = awake * (kept * (1 - z) * v + W @ x[t, 0] + R @ z + b)
            a = v - 1
            nominal = a.detach() if recorded is None else recorded[t]
            if recorded is None:
                seen.append(nominal)
            hard = (nominal >= 0).double()
            z = awake * (hard + a / (1 + 3 * a.abs()) - nominal / (1 + 3 * nominal.abs()))
            wait = torch.where(awake * hard > 0, 1.0, (wait - 1).clamp(min=0))
            s = keep * s + (1 - keep) * z
            total = total + (t + 1) * s
        return total

    weights = [p.detach().clone().requires_grad_() for p in (cell.weight_ih, cell.weight_hh, cell.bias_h)]
    smooth(*weights, None)
    assert any((a >= 0).any() for a in seen)
    assert torch.autograd.gradcheck(lambda *w: smooth(*w, seen), weights)
    expected = torch.autograd.grad(smooth(*weights, seen).sum(), weights)
    output, _ = made(x)
    loss = (output[:, 0] * torch.arange(1, 9, dtype=torch.float64)[:, None]).sum()
    close(torch.autograd.grad(loss, [cell.weight_ih, cell.weight_hh, cell.bias_h]), expected)


@pytest.mark.fixed_seed("whether a training succeeds depends on the seed")
def test_a_liquid_can_be_trained() -> None:
    """Which of two channels had its spike first: the loss falls by gradient steps through the spikes."""
    torch.manual_seed(1)
    x = torch.zeros(40, 64, 2)
    order = torch.arange(64) % 2
    times = torch.randint(2, 10, (64, 1)) + torch.tensor([0, 12])
    for n in range(64):
        x[times[n, 0], n, order[n]] = x[times[n, 1], n, 1 - order[n]] = 2.0
    model = autapse.models.Classifier("liquid:learn=true:input_connections=1.0", 2, 2, hidden_size=30)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(model(x.transpose(0, 1)), order)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    grads = model.layer.cells["l0"].weight_hh.grad
    assert grads is not None
    assert grads.abs().max() > 0
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": 0.0}, "tau must be a finite number above 0; got 0.0"),
        ({"trace": -1.0}, "trace must be a finite number above 0; got -1.0"),
        ({"refractory": -1}, "refractory must be an integer of at least 0; got -1"),
        ({"inhibitory": 1.1}, "inhibitory must be a finite number at least 0 and at most 1; got 1.1"),
        ({"connections": 12}, "connections must be an integer of at least 0 and at most 11; got 12"),
        ({"input_connections": 0.0}, "input_connections must be a finite number above 0 and at most 1; got 0.0"),
        ({"input_scaling": [1.0]}, "input_scaling must have one number per feature, 3; got 1"),
        ({"read": "spike"}, "read must be one of traces, spikes; got 'spike'. Did you mean 'spikes'?"),
        ({"slope": 0.0}, "slope must be a finite number above 0; got 0.0"),
        ({"reach": 0.0}, "reach must be a finite number above 0; got 0.0"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        layer(**options)
