"""First and second derivatives of whole layers, with respect to everything, by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from networks import Network, every_smooth_layer, every_smooth_variant, flat

T, D, H = 3, 2, 3


def sized(network: Network) -> Network:
    """The variant with H units: a tensor of time constants or rates has one per unit."""
    options = {name: value[:H] if isinstance(value, Tensor) else value for name, value in network.options.items()}
    return Network(network.name, options, network.equation)


def as_function(
    network: Network, layer: Any, lengths: list[int], **keywords: Any
) -> tuple[Callable[..., Any], list[Tensor]]:
    """The layer as a function of its input, initial states and parameters."""
    batch, directions = len(lengths), 2 if layer.bidirectional else 1
    x = torch.randn(T, batch, D, dtype=torch.float64, requires_grad=True)
    h0 = flat(network.h0(batch, H, layer.num_layers, directions))
    named = dict(layer.named_parameters())

    def call(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        states, values = rest[: len(h0)], rest[len(h0) :]
        given = states[0] if len(states) == 1 else states
        result = functional_call(layer, dict(zip(named, values, strict=True)), (x, given, lengths), keywords)
        return (result[0], *flat(result[1]))

    return call, [x, *h0, *[p.detach().requires_grad_() for p in named.values()]]


@every_smooth_variant
def test_first_and_second_derivatives(network: Network) -> None:
    """Through torch's ops for RNN, GRU and LSTM, through the scan for the others; one sequence ends early."""
    network = sized(network)
    call, inputs = as_function(network, network.layer(D, H), [T, 2])
    assert torch.autograd.gradcheck(call, inputs)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@every_smooth_layer
def test_stacked_both_ways(network: Network) -> None:
    """First derivatives: second ones are those of the single layers above, by the chain rule of autograd."""
    call, inputs = as_function(network, network.layer(D, H, num_layers=2, bidirectional=True), [2, 0, T])
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_the_scan_of_torch_compatible_layers(name: str) -> None:
    network = Network(name, {}, lambda *_: ())
    call, inputs = as_function(network, network.layer(D, H), [T, 2], return_states=True)
    assert torch.autograd.gradcheck(call, inputs)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@every_smooth_variant
def test_gradient_of_the_states(network: Network) -> None:
    """A loss on the inner states, which only return_states shows."""
    network = sized(network)
    layer = network.layer(D, H)
    x = torch.randn(T, 1, D, dtype=torch.float64, requires_grad=True)

    def states(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(x, return_states=True)[2][0])

    assert torch.autograd.gradcheck(states, x)
