"""Reservoirs: what is drawn, what the echo state property says, and layers without parameters."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

import autapse
from autapse.cells.wiring import grid, random_inputs, squared_distances
from autapse.checks import InputError
from networks import D, H, Network, every_fixed, rows_of, unroll
from tolerance import close

N = 150


def matrix_of(cell: Any) -> Tensor:
    """R as a dense matrix."""
    if cell.pattern is None:
        return cell.weight_hh.detach()
    dense = torch.zeros(cell.hidden_size, cell.hidden_size, dtype=cell.weight_hh.dtype)
    for value, row, column in zip(cell.weight_hh, *cell.pattern.tolist(), strict=True):
        dense[row, column] = value.item()
    return dense


def radius(matrix: Tensor) -> float:
    return float(np.abs(np.linalg.eigvals(matrix.double().numpy())).max())


def cell(units: int = N, **options: Any) -> Any:
    return autapse.cells.Reservoir(2, units, dtype=torch.float64, **options)


# What is drawn --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [0.5, 0.95, 1.2])
@pytest.mark.parametrize("topology", ["random", "ring", "distance"])
def test_the_spectral_radius_is_the_given_one(wanted: float, topology: str) -> None:
    assert radius(matrix_of(cell(spectral_radius=wanted, topology=topology))) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize(("connections", "expected"), [(None, 10), (1, 1), (7, 7), (0.1, 15), (0.5, 75), (1.0, N)])
def test_every_unit_reads_as_many_others(connections: float | None, expected: int) -> None:
    made = cell(connections=connections)
    counts = (matrix_of(made) != 0).sum(1)
    assert counts.tolist() == [expected] * N
    assert (made.pattern is not None) == (4 * expected <= N)


def test_all_inputs_are_equally_likely() -> None:
    for units, count in ((40, 5), (40, 20)):  # drawn in two ways
        read = torch.stack([random_inputs(units, count)[1].bincount(minlength=units) for _ in range(200)]).sum(0)
        assert scipy.stats.chisquare(read.numpy()).pvalue > 1e-4


def test_a_ring_reads_the_unit_before() -> None:
    made = cell(5, topology="ring", spectral_radius=0.7)
    expected = torch.zeros(5, 5, dtype=torch.float64)
    for unit in range(5):
        expected[unit, (unit - 1) % 5] = 0.7
    close(matrix_of(made), expected)


def test_near_units_are_read_more_often() -> None:
    near, any_of = (random_inputs(216, 10, reach) for reach in (1.5, None))
    places = grid(216)
    assert len({tuple(place) for place in places.tolist()}) == 216
    assert places.max() == 5
    distance = squared_distances(places, places).sqrt()
    mean_near, mean_any = (float(distance[tuple(pattern)].mean()) for pattern in (near, any_of))
    assert mean_near < 0.5 * mean_any
    assert mean_any == pytest.approx(float(distance.mean()), rel=0.1)


def test_how_often_a_distance_is_chosen() -> None:
    """One input per unit: the probability is exp(−(d/λ)²), normalised over all units."""
    places, reach = grid(8), 1.2
    weight = torch.exp(-squared_distances(places, places) / reach**2)
    expected = weight / weight.sum(1, keepdim=True)
    counts = torch.zeros(8, 8, dtype=torch.float64)
    for _ in range(1500):
        counts[tuple(random_inputs(8, 1, reach))] += 1
    assert scipy.stats.chisquare(counts.numpy(), 1500 * expected.numpy(), axis=1).pvalue.min() > 1e-4


def test_scalings() -> None:
    made = cell(2000, input_scaling=[0.5, 3.0], bias_scaling=0.2)
    for values, bound in ((made.weight_ih[:, 0], 0.5), (made.weight_ih[:, 1], 3.0), (made.bias_h, 0.2)):
        assert scipy.stats.kstest(values.numpy(), scipy.stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-4
    assert cell(4, bias=False).bias_h is None


def test_rates() -> None:
    assert cell(4, leak=0.3).rate.tolist() == [0.3] * 4
    drawn = cell(2000, leak=(0.01, 1.0)).rate.log()
    assert scipy.stats.kstest(drawn.numpy(), scipy.stats.uniform(np.log(0.01), -np.log(0.01)).cdf).pvalue > 1e-4


def test_the_same_seed_gives_the_same_weights_in_every_dtype() -> None:
    made = []
    for dtype in (torch.float64, torch.float32):
        torch.manual_seed(5)
        made.append(autapse.cells.Reservoir(2, 250, leak=(0.1, 1.0), dtype=dtype))
    for (name, wide), narrow in zip(made[0].named_buffers(), made[1].buffers(), strict=True):
        close(wide.float() if wide.is_floating_point() else wide, narrow, name) if name != "pattern" else None
    assert torch.equal(made[0].pattern, made[1].pattern)


def test_a_matrix_of_ones_own() -> None:
    matrix = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.5]], dtype=torch.float64)
    close(matrix_of(cell(3, topology=matrix, spectral_radius=None)), matrix)
    close(matrix_of(cell(3, topology=matrix, spectral_radius=1.0)), 2 * matrix)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topology": torch.tril(torch.ones(9, 9), -1)}, "topology must have a cycle: all eigenvalues of this matrix"),
        ({"topology": torch.zeros(9, 9)}, "got '0 entries without one'. Pass spectral_radius=None"),
        ({"topology": torch.zeros(9, 8)}, "topology must have shape (9, 9); got (9, 8)"),
        ({"topology": torch.eye(9), "connections": 2}, "connections must be None if topology is a matrix; got 2"),
        ({"topology": "rings"}, "topology must be one of random, ring, distance; got 'rings'. Did you mean 'ring'?"),
        ({"topology": "ring", "connections": 2}, "connections must be 1 in a ring"),
        ({"connections": 10}, "connections must be an integer of at least 1 and at most 9; got 10"),
        ({"connections": 0.0}, "connections must be a finite number above 0 and at most 1; got 0.0"),
        ({"spectral_radius": 0.0}, "spectral_radius must be a finite number above 0; got 0.0"),
        ({"leak": 1.5}, "leak must be a finite number above 0 and at most 1; got 1.5"),
        ({"leak": torch.ones(3)}, "leak must have one value per unit, shape (9,); got (3,)"),
        ({"leak": (0.5, 0.1)}, "leak must be a number, a tensor, or a pair (low, high)"),
        ({"input_scaling": [1.0]}, "input_scaling must have one number per feature, 2; got 1"),
        ({"input_scaling": -1.0}, "input_scaling must be a finite number at least 0; got -1.0"),
        ({"bias_scaling": -1.0}, "bias_scaling must be a finite number at least 0; got -1.0"),
        ({"reach": 1.0}, 'reach must keep its default unless topology is "distance"; got 1.0'),
        ({"learn": 1}, "learn must be True or False; got 1"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        cell(9, **options)


# What a reservoir does ------------------------------------------------------------------------------------------------


def test_the_echo_state_property() -> None:
    """Below a spectral radius of 1 two initial states are forgotten; far above it they are not."""
    x = torch.randn(400, 1, 2, dtype=torch.float64)
    for wanted, forgets in ((0.8, True), (3.0, False)):
        layer = autapse.Reservoir(2, N, spectral_radius=wanted, input_scaling=0.1, dtype=torch.float64)
        ends = [layer(x, torch.randn(1, 1, N, dtype=torch.float64))[1] for _ in range(2)]
        apart = float((ends[0] - ends[1]).norm())
        assert apart < 1e-6 if forgets else apart > 1e-2


def test_a_linear_reservoir_forgets_at_the_rate_of_its_radius() -> None:
    """Without input and nonlinearity, h_T = Rᵀ·h_0: the norm shrinks by the radius per step in the long run."""
    layer = autapse.Reservoir(1, N, nonlinearity="identity", bias=False, dtype=torch.float64)
    x, start = torch.zeros(600, 1, 1, dtype=torch.float64), torch.randn(1, 1, N, dtype=torch.float64)
    trace = layer(x, start)[0][:, 0].norm(dim=1).log()
    assert float(trace[-1] - trace[299]) / 300 == pytest.approx(np.log(0.9), abs=0.01)


# Layers without parameters --------------------------------------------------------------------------------------------


@every_fixed
@pytest.mark.parametrize("keywords", [{}, {"num_layers": 2, "bidirectional": True}], ids=["one", "stack"])
def test_a_layer_is_its_equation(network: Network, keywords: dict[str, Any]) -> None:
    if isinstance(network.options.get("input_scaling"), list) and keywords:
        network = Network(network.name, network.options | {"input_scaling": 0.7}, network.equation)
    layer = network.layer(**keywords)
    assert not list(layer.parameters())
    h0 = network.h0(3, num_layers=layer.num_layers, directions=layer.directions)
    x = torch.randn(5, 3, D, dtype=torch.float64, requires_grad=True)
    lengths = [5, 2, 0]
    output, h_n = layer(x, h0, lengths=lengths)
    losses = [output.square().sum() + h_n.sum()]
    expected = x.new_zeros(())
    for n, length in enumerate(lengths):
        rows, final, _ = unroll(network, layer, x[:length, n], rows_of(network, h0, n))
        close(h_n[:, n], torch.stack([state[0] for state in final]))
        expected = expected + sum(state[0].sum() for state in final)
        if rows:
            close(output[:length, n], torch.stack(rows))
            expected = expected + torch.stack(rows).square().sum()
    losses.append(expected)
    one, other = (torch.autograd.grad(loss, [x, h0]) for loss in losses)
    close(one, other)


@every_fixed
def test_a_stream_is_the_layer(network: Network) -> None:
    layer, x = network.layer(), torch.randn(6, 2, D, dtype=torch.float64)
    stream = layer.stream(2)
    close(torch.stack([stream(x_t) for x_t in x]), layer(x)[0])


@every_fixed
def test_a_state_dict_has_all_of_it(network: Network) -> None:
    one, other = network.layer(), network.layer()
    x = torch.randn(4, 2, D, dtype=torch.float64)
    assert not torch.equal(one(x)[0], other(x)[0])
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(x)[0], other(x)[0])


def test_the_dtype_is_that_of_the_buffers() -> None:
    layer = autapse.Reservoir(D, H, connections=1)
    assert layer.stream()(torch.zeros(D)).dtype == torch.float32
    with pytest.raises(InputError, match="dtype"):
        layer(torch.zeros(2, 1, D, dtype=torch.float64))
    assert layer.double()(torch.zeros(2, 1, D, dtype=torch.float64))[0].dtype == torch.float64


def test_sparse_and_dense_are_the_same_network() -> None:
    sparse = autapse.Reservoir(D, 40, connections=10, leak=0.4, dtype=torch.float64)
    matrix = matrix_of(sparse.cells["l0"])
    matrix[matrix == 0] = 1e-300  # stored as dense
    dense = autapse.Reservoir(D, 40, topology=matrix, spectral_radius=None, leak=0.4, dtype=torch.float64)
    assert sparse.cells["l0"].pattern is not None
    assert dense.cells["l0"].pattern is None
    for name in ("weight_ih", "bias_h"):
        getattr(dense.cells["l0"], name).copy_(getattr(sparse.cells["l0"], name))
    x = torch.randn(7, 3, D, dtype=torch.float64)
    close(sparse(x)[0], dense(x)[0])
    close(sparse.cells["l0"].jacobian(x[0]), dense.cells["l0"].jacobian(x[0]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_threads_and_batches_change_no_bit_of_a_sparse_product(dtype: torch.dtype) -> None:
    """The same bits for every number of threads, and in a batch; the last block of units is not full."""
    layer = autapse.Reservoir(D, 420, connections=0.2, leak=0.7, dtype=dtype)
    x = torch.randn(12, 2, D, dtype=dtype)
    expected = layer(x)[0][:, :1]
    for count in (1, 2, 3, 7):
        torch.set_num_threads(count)
        assert torch.equal(layer(x[:, :1])[0], expected)
    cell_, h = layer.cells["l0"], torch.zeros(420, dtype=dtype)
    for x_t in x[:, 0]:
        h = 0.3 * h + 0.7 * torch.tanh(cell_.weight_ih @ x_t + matrix_of(cell_) @ h + cell_.bias_h)
    close(expected[-1, 0], h)
