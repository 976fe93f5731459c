"""The shortest path from an input to a later output: by hand, and counted on the graph of the unrolled equations."""

from __future__ import annotations

import heapq
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.diagnostics import ShortestPath, shortest_path
from networks import COMPOSED_VARIANTS, VARIANTS, D, H, Network, raw

LAGS = (0, 1, 2, 7)


class Delayed(autapse.Cell):
    """h' = tanh(0.5·h_{t−1} + 0.4·h_{t−5} + Σx)"""

    stencil = (-1, -5)

    def drive(self, x: Tensor) -> Tensor:
        return x.sum(-1, keepdim=True)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
        before, earlier = state
        return (torch.tanh(0.5 * before + 0.4 * earlier + u),)


class Skipping(autapse.Cell):
    """Two nonlinear maps in a row, with a drive and an output of its own; a sign, which has no gradient."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.scale = torch.nn.Parameter(torch.ones(hidden_size, dtype=torch.float64))

    def drive(self, x: Tensor) -> Tensor:
        return torch.sin(x)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
        (h,) = state
        return (torch.relu(self.scale * torch.sigmoid(h) + u) + torch.sign(h),)

    def output(self, state: tuple[Tensor, ...]) -> Tensor:
        return torch.exp(state[0])


# By hand: the maps at lags 0, 1, 2 and 7, and the number that each further step adds.
TABLE: list[tuple[Any, tuple[int | None, ...], float | None]] = [
    (autapse.RNN(D, H), (1, 2, 3, 8), 1.0),
    (autapse.RNN(D, H, nonlinearity="identity"), (0, 0, 0, 0), 0.0),
    (autapse.RNN(D, H, num_layers=3), (3, 4, 5, 10), 1.0),
    (autapse.IRNN(D, H), (1, 2, 3, 8), 1.0),
    (autapse.RIN(D, H, transitions=2), (2, 4, 6, 16), 2.0),
    (autapse.LeakyRNN(D, H), (1, 1, 1, 1), 0.0),
    (autapse.Antisymmetric(D, H), (1, 1, 1, 1), 0.0),
    (autapse.GRU(D, H), (1, 1, 1, 1), 0.0),
    (autapse.UGRNN(D, H, num_layers=2), (2, 2, 2, 2), 0.0),
    (autapse.LSTM(D, H), (1, 2, 2, 2), 0.0),  # through o at lag 0, through c later
    (autapse.LSTM(D, H, num_layers=2), (2, 3, 3, 3), 0.0),
    (autapse.Deep(D, H), (2, 4, 6, 16), 2.0),
    (autapse.Deep(D, H, transition_depth=3, input_depth=2, output_depth=1), (7, 11, 15, 35), 4.0),
    (autapse.Deep(D, H, transition_depth=3, input_depth=2, output_depth=1, skip=True), (1, 2, 3, 8), 1.0),
    (autapse.Deep(D, H, cell="gru", transition_depth=2), (3, 5, 7, 17), 2.0),
    (autapse.Deep(D, H, cell="gru", transition_depth=2, skip=True), (1, 1, 1, 1), 0.0),
    (autapse.Deep(D, H, cell="lstm", transition_depth=2), (3, 4, 4, 4), 0.0),  # the cell's path does not get longer
    (autapse.Deep(D, H, cell="rnn", groups=2, group_input="first", transition_depth=0), (1, 2, 3, 8), 1.0),
    (autapse.Deep(D, H, groups=2, group_input="first", group_output="last", transition_depth=0), (None, 2, 3, 8), 1.0),
    (autapse.Deep(D, H, cell="gru", groups=4, group_input="first", group_output="last", transition_depth=0),
     (None, 2, 2, 2), 0.0),
    (autapse.Deep(D, H, cell="gru", groups=4, group_input="first", group_output="last", skip=True), (2, 2, 2, 2), 0.0),
    (autapse.Deep(D, H, cell="gru", groups=4, group_input="first", group_output="last"), (2, 3, 4, 9), 1.0),
    (autapse.Recurrent(Delayed, D, D), (1, 2, 3, 4), None),
    (autapse.Recurrent(Delayed, D, D, num_layers=2), (2, 3, 4, 5), None),
    (autapse.Deep(D, D, cell=Delayed, transition_depth=1), (2, 4, 6, 8), None),
    (autapse.Recurrent(Skipping, D, D), (3, 5, 7, 17), 2.0),  # sin, relu … exp
]  # fmt: skip


@pytest.mark.parametrize(("layer", "maps", "per_step"), TABLE, ids=lambda value: str(value)[:70])
def test_by_hand(layer: Any, maps: tuple[int | None, ...], per_step: float | None) -> None:
    assert tuple(shortest_path(layer, lag).maps for lag in LAGS) == maps
    if per_step is not None:
        assert shortest_path(layer, 8).per_step == per_step


def test_delays_make_the_path_shorter() -> None:
    layer = autapse.Recurrent(Delayed, D, D)
    assert [shortest_path(layer, lag).maps for lag in (5, 10, 14, 20)] == [2, 3, 7, 5]
    assert shortest_path(layer, 20).per_step == 0.2


def test_two_directions() -> None:
    layer = autapse.RNN(D, H, bidirectional=True)
    assert [shortest_path(layer, lag).maps for lag in (-3, 0, 3)] == [4, 1, 4]
    assert shortest_path(layer, -3).per_step == 1.0
    assert shortest_path(autapse.RNN(D, H), -1) == ShortestPath(None, None)
    # There and back: five steps ahead by the delay, then one step back in the layer above.
    both = autapse.Recurrent(Delayed, D, D, num_layers=2, bidirectional=True)
    assert shortest_path(both, 4).maps == 4
    assert shortest_path(autapse.Recurrent(Delayed, D, D, num_layers=2), 4).maps == 6


def test_zero_weights_are_no_connections() -> None:
    layer = autapse.RNN(D, H)
    with torch.no_grad():
        layer.weight_hh_l0.zero_()
    assert shortest_path(layer, 0).maps == 1
    assert shortest_path(layer, 1) == ShortestPath(None, None)


def test_what_has_no_path_of_maps_is_refused() -> None:
    for layer in (autapse.ImplicitGRU(D, H), autapse.EquilibriumTanh(D, H), autapse.Deep(D, H, cell="equilibriumtanh")):
        with pytest.raises(InputError, match="layer must take steps"):
            shortest_path(layer, 3)
    assert shortest_path(autapse.EquilibriumTanh(D, H, inner_steps=2), 3).maps == 1
    with pytest.raises(TypeError, match="layer must be a layer; got 'GRU'"):
        shortest_path(autapse.cells.GRU(D, H), 3)
    with pytest.raises(TypeError, match=r"lag must be an integer; got 1\.5"):
        shortest_path(autapse.GRU(D, H), 1.5)


# On the graph of the equations in networks.py -----------------------------------------------------------------------

COUNTED = ("Tanh", "Relu", "Clamp", "Reciprocal")  # sigmoid is 1 / (1 + exp(−a)) there, and ReLU is a clamp


def counted_on_the_graph(end: Any, start: Tensor) -> float:
    """The least number of nonlinear nodes from a result back to a leaf."""
    queue: list[Any] = [(0, 0, end)]
    seen: set[Any] = set()
    while queue:
        length, _, node = heapq.heappop(queue)
        if node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) is start:
            return length
        name = node.name()
        if name.startswith(("Sign", "Sgn")):
            continue
        cost = any(name.startswith(f"{kind}Backward") for kind in COUNTED)
        for before, _ in node.next_functions:
            if before is not None:
                heapq.heappush(queue, (length + cost, random.random(), before))
    return math.inf


# On the graph of a reservoir, a leak of 1 leaves an edge with the weight 0 from state to state.
WITHOUT_ZEROS = [network for network in (*VARIANTS, *COMPOSED_VARIANTS) if network.name != "Reservoir"]


@pytest.mark.parametrize("network", WITHOUT_ZEROS, ids=str)
@pytest.mark.parametrize("num_layers", [1, 2])
def test_on_the_graph_of_the_equations(network: Network, num_layers: int) -> None:
    layer = network.layer(num_layers=num_layers)
    rows = [torch.randn(D, dtype=torch.float64) for _ in range(4)]
    start = rows[0].requires_grad_()
    for number in range(num_layers):
        parameters = {name: value.detach() for name, value in raw(layer, f"l{number}").items()}
        state = tuple(torch.zeros(size, dtype=torch.float64) for size in network.state_sizes())
        outputs = []
        for t, row in enumerate(rows):
            state = network.step(parameters, row, state, t)
            outputs.append(network.output(parameters, state))
        rows = outputs
    for lag, output in enumerate(rows):
        expected = counted_on_the_graph(output.grad_fn, start) if output.grad_fn is not None else math.inf
        found = shortest_path(layer, lag).maps
        if network.options.get("group_output") == "last":
            assert found is None or found >= expected  # the graph has no single units
        else:
            assert (math.inf if found is None else found) == expected
