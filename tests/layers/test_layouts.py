"""Unbatched, batch first, stacked, both ways: each equals the plainer layers it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import autapse
from networks import D, H, Network, every_layer, every_variant, flat, raw
from tolerance import close

T, B = 4, 3


def single(network: Network, stacked: Any, key: str, input_size: int, hidden_size: int = H, **keywords: Any) -> Any:
    """A layer of one cell, with the parameters of one cell of a larger layer."""
    layer = network.layer(input_size, hidden_size, **keywords)
    with torch.no_grad():
        for name, value in raw(layer, "l0").items():
            value.copy_(raw(stacked, key)[name])
    return layer


def state_of(h0: Any, index: int) -> Any:
    """One cell's initial state in the format of a layer of one cell."""
    return h0[index : index + 1] if isinstance(h0, Tensor) else tuple(h[index : index + 1] for h in h0)


def stack(parts: list[Any]) -> Any:
    return torch.cat(parts) if isinstance(parts[0], Tensor) else tuple(torch.cat(p) for p in zip(*parts, strict=True))


@every_variant
def test_unbatched(network: Network) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    x, h0 = torch.randn(T, B, D, dtype=torch.float64), network.h0(B, num_layers=2, directions=2)
    output, h_n, states = layer(x, h0, return_states=True)
    for b in range(B):
        own = h0[:, b] if isinstance(h0, Tensor) else tuple(h[:, b] for h in h0)
        alone, alone_n, alone_states = layer(x[:, b], own, return_states=True)
        close(alone, output[:, b])
        close(flat(alone_n), [h[:, b] for h in flat(h_n)])
        close(alone_states, [tuple(s[:, b] for s in per_layer) for per_layer in states])
    assert layer(x[:, 0])[0].shape == (T, layer.output_size)


@every_variant
def test_batch_first(network: Network) -> None:
    torch.manual_seed(0)
    layer = network.layer(num_layers=2, bidirectional=True)
    torch.manual_seed(0)
    turned = network.layer(num_layers=2, bidirectional=True, batch_first=True)
    x, h0 = torch.randn(T, B, D, dtype=torch.float64), network.h0(B, num_layers=2, directions=2)
    output, h_n, states = layer(x, h0, return_states=True)
    found, found_n, found_states = turned(x.transpose(0, 1), h0, return_states=True)
    close(found, output.transpose(0, 1))
    close(found_n, h_n)  # h0 and h_n keep their shape, as in torch.nn
    close(found_states, [tuple(s.transpose(0, 1) for s in per_layer) for per_layer in states])
    close(turned(x[:, 0])[0], layer(x[:, 0])[0])  # unbatched input has no batch to put first


@every_layer
def test_states_are_what_the_outputs_show(network: Network) -> None:
    """Shapes and meaning of return_states: the first state is the output, the last step is h_n."""
    layer = network.layer(num_layers=2, bidirectional=True)
    output, h_n, states = layer(torch.randn(T, B, D, dtype=torch.float64), return_states=True)
    assert [[s.shape for s in per_layer] for per_layer in states] == [
        [(T, B, 2, size) for size in network.state_sizes()[: network.traced]]
    ] * 2
    close(states[-1][0].flatten(2), output)
    for i, h in enumerate(flat(h_n)[: network.traced]):
        for number in range(2):
            close(states[number][i][-1, :, 0], h[2 * number])
            close(states[number][i][0, :, 1], h[2 * number + 1])


@every_layer
def test_bidirectional_is_a_second_layer_on_the_flipped_input(network: Network) -> None:
    layer = network.layer(bidirectional=True)
    forward, backward = single(network, layer, "l0", D), single(network, layer, "l0_reverse", D)
    x, h0 = torch.randn(T, B, D, dtype=torch.float64), network.h0(B, directions=2)
    output, h_n = layer(x, h0)
    there, there_n = forward(x, state_of(h0, 0))
    back, back_n = backward(x.flip(0), state_of(h0, 1))
    close(output, torch.cat([there, back.flip(0)], dim=-1))
    close(h_n, stack([there_n, back_n]))


@every_layer
def test_stacked_is_one_layer_after_the_other(network: Network) -> None:
    layer = network.layer(num_layers=3)
    x, h0 = torch.randn(T, B, D, dtype=torch.float64), network.h0(B, num_layers=3)
    output, h_n = layer(x, h0)
    rows, ends = x, []
    for n in range(3):
        rows, end = single(network, layer, f"l{n}", rows.shape[-1])(rows, state_of(h0, n))
        ends.append(end)
    close(output, rows)
    close(h_n, stack(ends))


@every_layer
def test_sizes_of_their_own(network: Network) -> None:
    sizes = [5, 3, 4]
    layer = network.layer(D, sizes)
    assert layer.num_layers == 3
    x, h0 = torch.randn(T, B, D, dtype=torch.float64), network.h0(B, sizes)
    output, h_n = layer(x, h0)
    rows = x
    for n, size in enumerate(sizes):
        own = h0[n] if len(network.state_sizes()) == 1 else tuple(h[n] for h in h0)
        rows, end = single(network, layer, f"l{n}", rows.shape[-1], size)(rows, own)
        close(h_n[n] if len(network.state_sizes()) == 1 else tuple(h[n] for h in h_n), end)
    close(output, rows)
    per_state = [h_n] if len(network.state_sizes()) == 1 else list(h_n)
    assert all(isinstance(h, tuple) and len(h) == 3 for h in per_state)
    assert [tuple(h.shape) for h in per_state[-1]] == [(1, B, network.state_sizes(size)[-1]) for size in sizes]


@every_layer
def test_sizes_of_their_own_both_ways(network: Network) -> None:
    layer = network.layer(D, [5, 3], bidirectional=True)
    output, h_n = layer(torch.randn(T, B, D, dtype=torch.float64), network.h0(B, [5, 3], directions=2))
    sizes = [network.state_sizes(5), network.state_sizes(3)]
    assert output.shape == (T, B, 2 * sizes[1][0])
    last = h_n if len(network.state_sizes()) == 1 else h_n[0]
    assert [tuple(h.shape) for h in last] == [(2, B, sizes[0][0]), (2, B, sizes[1][0])]
    unbatched, own = layer(torch.randn(T, D, dtype=torch.float64), network.h0(None, [5, 3], directions=2))
    assert unbatched.shape == (T, 2 * sizes[1][0])
    assert [tuple(h.shape) for h in flat(own)] == [(2, size) for pair in zip(*sizes, strict=True) for size in pair]


@every_layer
def test_one_size_in_a_list_is_still_a_list(network: Network) -> None:
    torch.manual_seed(0)
    listed = network.layer(D, [H])
    torch.manual_seed(0)
    plain = network.layer(D, H)
    x = torch.randn(T, B, D, dtype=torch.float64)
    close(listed(x)[0], plain(x)[0])
    h_n = listed(x)[1] if len(network.state_sizes()) == 1 else listed(x)[1][0]
    assert isinstance(h_n, tuple)
    close(h_n[0], flat(plain(x)[1])[0])


@every_layer
def test_num_layers_may_repeat_what_the_list_says(network: Network) -> None:
    assert network.layer(D, [5, 3], num_layers=2).num_layers == 2
    assert network.layer(D, (5, 3)).num_layers == 2


def test_sizes_may_be_numpys() -> None:
    layer = autapse.GRU(np.int64(D), np.int64(H), np.int64(2))
    assert repr(layer) == repr(autapse.GRU(D, H, 2))
    assert layer(torch.zeros(T, B, D))[0].shape == (T, B, H)
    assert autapse.RIN(D, list(np.array([5, 3]))).hidden_size == [5, 3]


@every_layer
@pytest.mark.parametrize("lengths", [None, []], ids=["padded", "lengths"])
def test_no_sequences(network: Network, lengths: list[int] | None) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    x = torch.zeros(T, 0, D, dtype=torch.float64)
    output, h_n, states = layer(x, lengths=lengths, return_states=True)
    assert output.shape == (T, 0, 2 * network.state_sizes()[0])
    assert [h.shape for h in flat(h_n)] == [(4, 0, size) for size in network.state_sizes()]
    assert [s.shape for s in states[0]] == [(T, 0, 2, size) for size in network.state_sizes()[: network.traced]]
    assert layer(x, network.h0(0, num_layers=2, directions=2))[0].shape == output.shape


@every_layer
def test_one_step(network: Network) -> None:
    layer, x = network.layer(), torch.randn(1, B, D, dtype=torch.float64)
    output, h_n = layer(x)
    close(output[-1], flat(h_n)[0][0])


@every_layer
def test_non_contiguous_input_and_states(network: Network) -> None:
    layer = network.layer(bidirectional=True)
    x = torch.randn(B, D, T, dtype=torch.float64).permute(2, 0, 1)
    h0 = tuple(torch.randn(B, size, 2, dtype=torch.float64).permute(2, 0, 1) for size in network.state_sizes())
    assert not x.is_contiguous()
    given = h0[0] if len(h0) == 1 else h0
    copied = given.contiguous() if isinstance(given, Tensor) else tuple(h.contiguous() for h in given)
    close(layer(x, given), layer(x.contiguous(), copied))


@every_layer
def test_nothing_is_written_into_the_callers_tensors(network: Network) -> None:
    layer = network.layer(num_layers=2)
    x, h0 = torch.randn(T, B, D, dtype=torch.float64), network.h0(B, num_layers=2)
    before = [x.clone(), *[h.detach().clone() for h in flat(h0)]]
    layer(x, h0, lengths=[T, 0, 2])
    assert all(torch.equal(a, b) for a, b in zip([x, *flat(h0)], before, strict=True))


@every_layer
def test_no_grad_is_respected(network: Network) -> None:
    with torch.no_grad():
        output, h_n = network.layer()(torch.randn(T, B, D, dtype=torch.float64))
    assert not output.requires_grad
    assert not any(h.requires_grad for h in flat(h_n))


def test_h0_of_an_lstm_may_be_a_list() -> None:
    layer = autapse.LSTM(D, H)
    x, h, c = torch.randn(T, B, D), torch.randn(1, B, H), torch.randn(1, B, H)
    close(layer(x, [h, c]), layer(x, (h, c)))
