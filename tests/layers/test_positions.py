"""Coefficients that depend on the position: chunks, reverse direction, sequences past the learned length."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import autapse
from networks import VARIANTS, D, H, Network, every_variant, rows_of, unroll
from tolerance import close

T, B = 7, 3
PER_STEP = [n for n in VARIANTS if n.options.get("eta") == "per_step"]
every_per_step = pytest.mark.parametrize("network", PER_STEP, ids=str)


@every_variant
@pytest.mark.parametrize("sizes", [(3, 4), (1, 1, 5), (2, 2, 2, 1)], ids=str)
def test_chunks_with_carried_state_equal_the_full_pass(network: Network, sizes: tuple[int, ...]) -> None:
    layer = network.layer(num_layers=2)
    x, state = torch.randn(T, B, D, dtype=torch.float64), network.h0(B, num_layers=2)
    output, h_n = layer(x, state)
    pieces, start = [], 0
    for piece in x.split(list(sizes)):
        part, state = layer(piece, state, start=start)
        pieces.append(part)
        start += len(piece)
    close(torch.cat(pieces), output)
    close(state, h_n)


@every_per_step
def test_without_start_the_chunks_differ(network: Network) -> None:
    layer = network.layer()
    x = torch.randn(T, B, D, dtype=torch.float64)
    _, state = layer(x[:2])
    assert not torch.allclose(layer(x[2:], state)[0], layer(x)[0][2:])


@every_per_step
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("start", [0, 1, 5])
def test_start_is_the_position_of_the_first_step_processed(network: Network, bidirectional: bool, start: int) -> None:
    """In the reverse direction too, where positions count from each sequence's own end."""
    layer = network.layer(num_layers=2, bidirectional=bidirectional)
    lengths = (7, 2, 5)
    x, h0 = torch.randn(T, B, D, dtype=torch.float64), network.h0(B, num_layers=2, directions=1 + bidirectional)
    output, h_n = layer(x, h0, lengths=lengths, start=start)
    for b, n in enumerate(lengths):
        rows, final, _ = unroll(network, layer, x[:n, b], rows_of(network, h0, b), start)
        close(list(output[:n, b]), rows)
        close(rows_of(network, h_n, b), final)


def ernn(max_length: int, **options: Any) -> autapse.ERNN:
    torch.manual_seed(0)
    layer = autapse.ERNN(D, H, eta="per_step", max_length=max_length, dtype=torch.float64, **options)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith("rate"):
                parameter.copy_(torch.rand_like(parameter))
    return layer


@pytest.mark.parametrize("bidirectional", [False, True])
def test_past_max_length_the_last_value_holds(bidirectional: bool) -> None:
    short, long = ernn(3, bidirectional=bidirectional), ernn(T, bidirectional=bidirectional)
    with torch.no_grad():
        for key, cell in long.cells.items():
            for name, value in short.cells[key].named_parameters():
                mine = getattr(cell, name)
                mine.copy_(torch.cat([value, value[-1:].expand(T - 3, -1)]) if name == "rate" else value)
    x = torch.randn(T, B, D, dtype=torch.float64)
    close(short(x), long(x))
    assert len({rate.item() for rate in short.cells["l0"].rate}) == 3


def test_the_rate_of_each_position_has_its_own_gradient() -> None:
    layer = ernn(5, nonlinearity="tanh")
    layer(torch.randn(3, B, D, dtype=torch.float64))[1].sum().backward()
    gradient = layer.cells["l0"].rate.grad.flatten()
    assert (gradient[:3] != 0).all()
    assert not gradient[3:].any()


def test_each_sequence_starts_its_reverse_at_position_zero() -> None:
    """One step only: the reverse direction uses the first rate at the end of each sequence, whatever its length."""
    layer = ernn(4, bidirectional=True, nonlinearity="tanh")
    reverse = layer.cells["l0_reverse"]
    x = torch.randn(T, B, D, dtype=torch.float64)
    for lengths in ([1, 4, 7], [7, 7, 7]):
        output, _ = layer(x, lengths=lengths)
        for b, n in enumerate(lengths):
            close(output[n - 1, b, H:], reverse(x[n - 1, b], t=0))


@pytest.mark.parametrize("lengths", [(1, 2), (60, 3)], ids=str)
def test_any_length_works(lengths: tuple[int, ...]) -> None:
    layer = ernn(5)
    for steps in lengths:
        assert layer(torch.randn(steps, 1, D, dtype=torch.float64))[0].shape == (steps, 1, H)
