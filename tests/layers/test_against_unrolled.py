"""Whole layers against plain loops over time, layer and direction, with the equations of networks.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from networks import BASIC, MEMORY_VARIANTS, D, H, Network, every_layer, every_variant, flat, keys, raw, rows_of, unroll
from tolerance import close

T = 5


@dataclass(frozen=True)
class Shape:
    """One way to run a layer."""

    hidden_size: Any = H
    num_layers: int = 1
    bidirectional: bool = False
    batch_first: bool = False
    bias: bool = True
    lengths: tuple[int, ...] | None = None
    batch: int = 2

    def __str__(self) -> str:
        words = [str(self.hidden_size), f"{self.num_layers}layers"]
        words += [name for name in ("bidirectional", "batch_first") if getattr(self, name)]
        words += [] if self.bias else ["no_bias"]
        return "-".join(words + (["ragged"] if self.lengths else []))


SIMPLE = [Shape(), Shape(num_layers=2, bidirectional=True, batch=4, lengths=(3, 5, 0, 3))]
FULL = [
    Shape(num_layers=3),
    Shape(bidirectional=True, bias=False),
    Shape(bidirectional=True, batch_first=True, num_layers=2),
    Shape(lengths=(2, 5, 5, 1), batch=4, batch_first=True),
    Shape(lengths=(0, 3), batch=2, bidirectional=True, bias=False),
    Shape(hidden_size=[H, 3, 5], num_layers=3),
    Shape(hidden_size=[5, 3], num_layers=2, bidirectional=True, lengths=(4, 5, 0), batch=3, batch_first=True),
]


def check(network: Network, shape: Shape) -> None:
    layer = network.layer(
        D,
        shape.hidden_size,
        num_layers=shape.num_layers,
        bidirectional=shape.bidirectional,
        batch_first=shape.batch_first,
        bias=shape.bias,
    )
    directions = 2 if shape.bidirectional else 1
    per_layer = isinstance(shape.hidden_size, list)
    x = torch.randn(T, shape.batch, D, dtype=torch.float64, requires_grad=True)
    h0 = network.h0(shape.batch, shape.hidden_size, shape.num_layers, directions)
    given = x.transpose(0, 1) if shape.batch_first else x
    lengths = shape.lengths or (T,) * shape.batch
    output, h_n, states = layer(given, h0, lengths=shape.lengths, return_states=True)
    output = time_first(output, shape)
    plain_output, plain_h_n = layer(given, h0, lengths=shape.lengths)  # torch's ops where there are some
    plain_output = time_first(plain_output, shape)

    expected = [unroll(network, layer, x[:n, b], rows_of(network, h0, b, per_layer)) for b, n in enumerate(lengths)]
    last = shape.hidden_size[-1] if per_layer else shape.hidden_size
    assert output.shape == (T, shape.batch, directions * network.output_size(last))
    assert output.shape[-1] == layer.output_size
    for b, (n, (rows, final, _)) in enumerate(zip(lengths, expected, strict=True)):
        close(list(output[:n, b]), rows)
        assert not output[n:, b].any(), "outputs past the end must be zero"
        close(rows_of(network, h_n, b, per_layer), final)
    close(plain_output, output)
    close(flat(plain_h_n), flat(h_n))
    check_states(network, shape, states, [trace for _, _, trace in expected], lengths)

    leaves = [x, *flat(h0), *layer.parameters()]
    gradients = differentiate([output, *flat(h_n)], leaves)
    looped = differentiate(assemble(network, expected, output.shape, h_n, per_layer), leaves)
    assert sum(float(g.abs().max()) > 1e-8 for g in looped) > len(leaves) / 2
    close(gradients, looped)
    close(differentiate([plain_output, *flat(plain_h_n)], leaves), looped)


def time_first(output: Tensor, shape: Shape) -> Tensor:
    return output.transpose(0, 1) if shape.batch_first else output


def check_states(network: Network, shape: Shape, states: Any, traces: list[Any], lengths: tuple[int, ...]) -> None:
    directions = 2 if shape.bidirectional else 1
    assert len(states) == shape.num_layers
    for number, per_state in enumerate(states):
        assert len(per_state) == network.traced
        for i, tensor in enumerate(per_state):
            moved = time_first(tensor, shape)
            assert moved.shape[:3] == (T, shape.batch, directions)
            for b, n in enumerate(lengths):
                assert not moved[n:, b].any()
                for d in range(directions):
                    trace = traces[b][number * directions + d]
                    close(list(moved[:n, b, d]), [state[i] for state in trace])


def assemble(network: Network, expected: Any, shape: torch.Size, h_n: Any, per_layer: bool) -> list[Tensor]:
    """What the loops give, as [T, B, H] and h_n, so that both sides can have the same loss."""
    output = torch.stack(
        [
            torch.stack([*rows, *[torch.zeros(shape[2], dtype=torch.float64)] * (T - len(rows))])
            for rows, _, _ in expected
        ],
        dim=1,
    )
    count = len(network.state_sizes())
    columns = [
        [torch.stack([final[key][i] for _, final, _ in expected]) for key in range(len(expected[0][1]))]
        for i in range(count)
    ]
    if not per_layer:
        return [output, *[torch.stack(column) for column in columns]]
    d = flat(h_n)[0].shape[0]
    return [output, *[torch.stack(column[n : n + d]) for column in columns for n in range(0, len(column), d)]]


def differentiate(results: list[Tensor], leaves: list[Tensor]) -> Any:
    loss = sum((r * torch.linspace(-1, 2, r.numel(), dtype=r.dtype).view(r.shape)).sum() for r in results)
    return torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)  # type: ignore[arg-type]


@every_variant
@pytest.mark.parametrize("shape", SIMPLE, ids=str)
def test_every_variant(network: Network, shape: Shape) -> None:
    check(network, shape)


@every_layer
@pytest.mark.parametrize("shape", FULL, ids=str)
def test_every_shape(network: Network, shape: Shape) -> None:
    check(network, shape)


@every_layer
def test_initial_states_have_a_default(network: Network) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    x = torch.randn(T, 2, D, dtype=torch.float64)
    starts = [network.initial_state(raw(layer, key)) for key in keys(2, bidirectional=True)]
    each = [torch.stack([part.expand(2, -1) for part in column]) for column in zip(*starts, strict=True)]
    expected, found = layer(x, each[0] if len(each) == 1 else tuple(each)), layer(x)
    assert torch.equal(found[0], expected[0])
    assert all(torch.equal(a, b) for a, b in zip(flat(found[1]), flat(expected[1]), strict=True))


def test_the_loops_see_every_parameter() -> None:
    """Guard of this file: raw() must find each parameter of each kind of layer under exactly one key."""
    for network in [*BASIC, *MEMORY_VARIANTS]:
        layer = network.layer(num_layers=2, bidirectional=True)
        found = [p for key in ("l0", "l0_reverse", "l1", "l1_reverse") for p in raw(layer, key).values()]
        everything = [*layer.parameters(), *layer.buffers()]
        assert sorted(map(id, found)) == sorted(map(id, everything))
