"""A padded batch with lengths is each sequence alone; packed input is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import autapse
from networks import D, H, Network, every_layer, every_variant, flat
from tolerance import close

T = 5
LENGTHS = [3, 5, 0, 1, 5]
B = len(LENGTHS)


def gradients(results: list[Tensor], leaves: list[Tensor]) -> Any:
    loss = sum((r * torch.linspace(-1, 2, r.numel(), dtype=r.dtype).view(r.shape)).sum() for r in results)
    return torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)  # type: ignore[arg-type]


@every_variant
@pytest.mark.parametrize("batch_first", [False, True])
def test_each_sequence_alone(network: Network, batch_first: bool) -> None:
    layer = network.layer(num_layers=2, bidirectional=True, batch_first=batch_first)
    x = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    h0 = network.h0(B, num_layers=2, directions=2)
    output, h_n = layer(x.transpose(0, 1) if batch_first else x, h0, lengths=LENGTHS)
    output = output.transpose(0, 1) if batch_first else output
    leaves = [x, *flat(h0), *layer.parameters()]
    alone_results, together = [], []
    for b, n in enumerate(LENGTHS):
        assert not output[n:, b].any()
        own_h0 = [h[:, b] for h in flat(h0)]
        if n == 0:
            close([h[:, b] for h in flat(h_n)], own_h0)
            continue
        alone, alone_n = layer(x[:n, b], own_h0[0] if len(own_h0) == 1 else tuple(own_h0))
        close(output[:n, b], alone)
        close([h[:, b] for h in flat(h_n)], flat(alone_n))
        alone_results += [alone, *flat(alone_n)]
        together += [output[:n, b], *[h[:, b] for h in flat(h_n)]]
    close(gradients(together, leaves), gradients(alone_results, leaves))


@every_layer
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packing_is_the_same(network: Network, batch_first: bool, bidirectional: bool) -> None:
    layer = network.layer(num_layers=2, bidirectional=bidirectional, batch_first=batch_first)
    lengths = [3, 5, 2, 1, 5]
    x = torch.randn((B, T, D) if batch_first else (T, B, D), dtype=torch.float64, requires_grad=True)
    h0 = network.h0(B, num_layers=2, directions=2 if bidirectional else 1)
    output, h_n, states = layer(x, h0, lengths=lengths, return_states=True)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first, enforce_sorted=False)
    packed_output, packed_n, packed_states = layer(packed, h0, return_states=True)
    assert type(packed_output) is PackedSequence
    for field in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        assert torch.equal(getattr(packed_output, field), getattr(packed, field))
    padded, found_lengths = pad_packed_sequence(packed_output, batch_first)
    assert found_lengths.tolist() == lengths
    close(padded, output)
    close(packed_n, h_n)
    close(packed_states, [tuple(s) for s in states])
    leaves = [x, *flat(h0), *layer.parameters()]
    close(gradients([padded, *flat(packed_n)], leaves), gradients([output, *flat(h_n)], leaves))


@every_layer
def test_sorted_packing(network: Network) -> None:
    layer = network.layer(bidirectional=True)
    x = torch.randn(T, 3, D, dtype=torch.float64)
    packed = pack_padded_sequence(x, torch.tensor([5, 3, 1]))
    output, h_n = layer(packed)
    expected, expected_n = layer(x, lengths=[5, 3, 1])
    assert output.sorted_indices is None
    close(pad_packed_sequence(output)[0], expected)
    close(h_n, expected_n)


@every_layer
@pytest.mark.parametrize(
    "make",
    [list, tuple, torch.tensor, np.array, lambda n: torch.tensor(n, dtype=torch.int32)],
    ids=["list", "tuple", "int64", "numpy", "int32"],
)
def test_any_kind_of_lengths(network: Network, make: Any) -> None:
    layer, x = network.layer(bidirectional=True), torch.randn(T, B, D, dtype=torch.float64)
    found, expected = layer(x, lengths=make(LENGTHS)), layer(x, lengths=LENGTHS)
    assert torch.equal(found[0], expected[0])


@every_layer
def test_full_lengths_are_no_lengths(network: Network) -> None:
    layer, x = network.layer(num_layers=2, bidirectional=True), torch.randn(T, B, D, dtype=torch.float64)
    close(layer(x, lengths=[T] * B), layer(x))


@every_layer
@pytest.mark.parametrize("return_states", [False, True])
def test_only_empty_sequences(network: Network, return_states: bool) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    x, h0 = torch.randn(T, 2, D, dtype=torch.float64), network.h0(2, num_layers=2, directions=2)
    output, h_n, *states = layer(x, h0, lengths=[0, 0], return_states=return_states)
    assert output.shape == (T, 2, 2 * network.state_sizes()[0])
    assert not output.any()
    assert all(torch.equal(a, b) for a, b in zip(flat(h_n), flat(h0), strict=True))
    for per_layer in states[0] if states else []:
        sizes = network.state_sizes()[: network.traced]
        assert [s.shape for s in per_layer] == [(T, 2, 2, size) for size in sizes]


@every_layer
def test_what_lies_past_the_end_does_not_matter(network: Network) -> None:
    """Neither garbage nor NaN in the padding reaches an output, a state or a gradient."""
    layer = network.layer(num_layers=2, bidirectional=True)
    clean = torch.randn(T, B, D, dtype=torch.float64)
    dirty = clean.clone()
    for b, n in enumerate(LENGTHS):
        clean[n:, b], dirty[n:, b] = 0.0, torch.nan
    results = []
    for x in (clean, dirty):
        x.requires_grad_()
        output, h_n = layer(x, lengths=LENGTHS)
        results.append([output, *flat(h_n), *gradients([output, *flat(h_n)], [x, *layer.parameters()])])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@every_layer
def test_it_costs_the_valid_steps_only(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that reach a cell's drive and steps are as many as there are valid steps."""
    layer, x = network.layer(), torch.randn(T, B, D, dtype=torch.float64)
    driven, stepped = [], []
    drive, step = network.cell_class.drive, network.cell_class.step
    monkeypatch.setattr(network.cell_class, "drive", lambda self, x: driven.append(len(x)) or drive(self, x))
    monkeypatch.setattr(
        network.cell_class, "step", lambda self, u, *rest: stepped.append(len(u)) or step(self, u, *rest)
    )
    layer(x, lengths=LENGTHS, return_states=True)
    assert driven == [sum(LENGTHS)]
    each = [sum(n > t for n in LENGTHS) for t in range(T)]
    assert stepped == (each if network.cell_class.stencil else [sum(each)])


def test_sequences_of_one_length_among_empty_ones() -> None:
    """All running sequences stop together, and yet not all run: the case between dense and ragged."""
    for bidirectional in (False, True):
        layer = autapse.GRU(D, H, num_layers=2, bidirectional=bidirectional, dtype=torch.float64)
        x = torch.randn(T, 3, D, dtype=torch.float64)
        h0 = torch.randn(4 if bidirectional else 2, 3, H, dtype=torch.float64)
        output, h_n = layer(x, h0, lengths=[4, 0, 4])
        expected, expected_n = layer(x[:4, ::2], h0[:, ::2].contiguous())
        close(output[:4, ::2], expected)
        close(h_n[:, ::2], expected_n)
        close(h_n[:, 1], h0[:, 1])
