"""A layer one step at a time gives what it gives for the whole sequence, and builds its matrices once."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parametrize

import autapse
from networks import D, H, Network, every_form_variant, every_layer, every_variant, flat, raw
from tolerance import close

T, B = 5, 3


def through(stream: Any, x: Tensor) -> Tensor:
    return torch.stack([stream(x_t) for x_t in x])


@every_variant
def test_stream_is_the_full_pass(network: Network) -> None:
    layer, x = network.layer(num_layers=2), torch.randn(T, B, D, dtype=torch.float64)
    stream = layer.stream(batch_size=B)
    output, h_n = layer(x)
    close(through(stream, x), output.detach())
    close(stream.state, [h.detach() for h in h_n] if isinstance(h_n, tuple) else h_n.detach())
    assert stream.position == T


@every_layer
def test_one_sequence(network: Network) -> None:
    """Batch size 1 is the default, and takes steps with and without a batch dimension."""
    layer, x = network.layer(), torch.randn(T, D, dtype=torch.float64)
    expected = layer(x)[0].detach()
    assert layer.stream()(x[0]).shape == expected[0].shape
    close(through(layer.stream(), x), expected)
    close(through(layer.stream(), x.unsqueeze(1)).squeeze(1), expected)


@every_layer
def test_sizes_of_their_own(network: Network) -> None:
    layer, x = network.layer(D, [5, 3]), torch.randn(T, B, D, dtype=torch.float64)
    stream, h0 = layer.stream(B), network.h0(B, [5, 3])
    stream.reset(h0)
    output, h_n = layer(x, h0)
    close(through(stream, x), output.detach())
    close(flat(stream.state), [h.detach() for h in flat(h_n)])
    assert type(stream.state) is type(h_n)


@every_layer
def test_reset_goes_back_to_the_start(network: Network) -> None:
    layer, x = network.layer(num_layers=2), torch.randn(T, B, D, dtype=torch.float64)
    stream = layer.stream(B)
    assert stream.position == 0
    starts = [network.initial_state(raw(layer, key)) for key in ("l0", "l1")]
    for found, *expected in zip(flat(stream.state), *starts, strict=True):
        close(found, torch.stack([one.expand(B, -1) for one in expected]).detach())
    first = through(stream, x)
    again = through(stream, x)
    assert torch.equal(again, first) != layer.reads_state, "the states should have been kept"
    assert stream.position == 2 * T
    stream.reset()
    assert stream.position == 0
    assert torch.equal(through(stream, x), first)


@every_layer
def test_reset_to_given_states(network: Network) -> None:
    layer, x = network.layer(num_layers=2), torch.randn(T, B, D, dtype=torch.float64)
    h0 = network.h0(B, num_layers=2)
    stream = layer.stream(B)
    stream.reset(h0)
    close(flat(stream.state), [h.detach() for h in flat(h0)])
    close(through(stream, x), layer(x, h0)[0].detach())


@every_layer
def test_state_carries_on_from_a_full_pass(network: Network) -> None:
    """The formats are one: a prompt by the layer, the rest by the stream, the end by the layer again."""
    layer, x = network.layer(num_layers=2), torch.randn(3 * T, B, D, dtype=torch.float64)
    expected, h_n = layer(x)
    _, after_prompt = layer(x[:T])
    stream = layer.stream(B)
    stream.reset(after_prompt, position=T)
    close(through(stream, x[T : 2 * T]), expected[T : 2 * T].detach())
    assert stream.position == 2 * T
    rest, end = layer(x[2 * T :], stream.state, start=2 * T)
    close(rest, expected[2 * T :])
    close(end, h_n)


@every_layer
def test_a_kept_state_is_not_overwritten_by_later_steps(network: Network) -> None:
    stream = network.layer().stream(B)
    stream(torch.randn(B, D, dtype=torch.float64))
    kept = flat(stream.state)
    before = [h.clone() for h in kept]
    stream(torch.randn(B, D, dtype=torch.float64))
    assert all(torch.equal(a, b) for a, b in zip(kept, before, strict=True))


@every_layer
def test_reset_takes_up_new_weights(network: Network) -> None:
    layer, x = network.layer(), torch.randn(T, B, D, dtype=torch.float64)
    stream = layer.stream(B)
    before = through(stream, x)
    layer.load_state_dict(network.layer().state_dict())
    stream.reset()
    assert not torch.equal(through(stream, x), before)
    stream.reset()
    close(through(stream, x), layer(x)[0].detach())


@every_variant
def test_training_in_place_does_not_reach_a_running_stream(network: Network) -> None:
    """Its matrices are built once; were its biases the layer's own, it would run on a mixture of old and new."""
    layer, x = network.layer(num_layers=2), torch.randn(T, B, D, dtype=torch.float64)
    expected = layer(x)[0].detach()
    stream = layer.stream(B)
    first = stream(x[0])
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1.0)
    close(torch.stack([first, *[stream(x_t) for x_t in x[1:]]]), expected)
    assert not torch.allclose(layer(x)[0], expected)


class Halved(torch.nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight / 2


def test_parametrized_weights_stream() -> None:
    torch_compatible, other = (
        autapse.GRU(D, H, num_layers=2, dtype=torch.float64),
        autapse.RIN(D, H, num_layers=2, dtype=torch.float64),
    )
    parametrize.register_parametrization(torch_compatible, "weight_hh_l0", Halved())
    parametrize.register_parametrization(other.cells["l0"], "weight_hh", Halved())
    x = torch.randn(T, B, D, dtype=torch.float64)
    for layer in (torch_compatible, other):
        close(through(layer.stream(B), x), layer(x)[0].detach())
        with torch.enable_grad():
            layer.stream(B)  # also where gradients are on


@every_layer
def test_no_gradients_and_no_dropout(network: Network) -> None:
    torch.manual_seed(0)
    plain = network.layer(num_layers=2)
    torch.manual_seed(0)
    layer = network.layer(num_layers=2, dropout=0.9).train()
    x = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    output = through(layer.stream(B), x)
    assert not output.requires_grad
    close(output, plain(x)[0].detach())


class Spy:
    """Counts the calls of a cell class's methods that build something out of the parameters."""

    NAMES = ("prepare", "affine", "matrix")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cell_class: Any) -> None:
        self.calls = dict.fromkeys(self.NAMES, 0)
        for name in self.NAMES:
            if hasattr(cell_class, name):
                monkeypatch.setattr(cell_class, name, self._counting(name, getattr(cell_class, name)))

    def _counting(self, name: str, method: Any) -> Any:
        def counted(*args: Any) -> Any:
            self.calls[name] += 1
            return method(*args)

        return counted


@every_form_variant
@pytest.mark.parametrize("num_layers", [1, 2])
def test_matrices_are_never_rebuilt_per_step(
    network: Network, num_layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = network.layer(num_layers=num_layers)
    spy = Spy(monkeypatch, network.cell_class)
    stream = layer.stream(B)
    made = dict(spy.calls)
    assert made["prepare"] == made["affine"] == num_layers
    for _ in range(T):
        stream(torch.randn(B, D, dtype=torch.float64))
    assert spy.calls == made, "a step rebuilt an effective matrix"
    stream.reset()
    assert spy.calls == {name: 2 * count for name, count in made.items()}


@every_form_variant
@pytest.mark.parametrize("lengths", [None, [5, 0, 2]], ids=["padded", "ragged"])
def test_a_forward_pass_prepares_each_cell_once(
    network: Network, lengths: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once per layer and direction, whatever the number of steps. (return_states: the scan, for every layer.)"""
    layer = network.layer(num_layers=2, bidirectional=True)
    spy = Spy(monkeypatch, network.cell_class)
    counts = []
    for steps in (5, 50):
        before = dict(spy.calls)
        layer(torch.randn(steps, B, D, dtype=torch.float64), lengths=lengths, return_states=True)
        counts.append({name: spy.calls[name] - before[name] for name in spy.calls})
    assert counts[0]["prepare"] == counts[0]["affine"] == 4
    assert counts[0] == counts[1]
    assert counts[0]["matrix"] in (0, 4)


def test_bidirectional_layers_do_not_stream() -> None:
    message = "layer must be unidirectional to stream; got 'bidirectional=True'. The reverse direction needs the end"
    with pytest.raises(ValueError, match=re.escape(message)):
        autapse.GRU(D, H, bidirectional=True).stream()


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, None])
def test_bad_batch_size(batch_size: Any) -> None:
    with pytest.raises(ValueError, match=f"batch_size must be an integer of at least 1; got {batch_size}"):
        autapse.GRU(D, H).stream(batch_size)


@pytest.mark.parametrize("shape", [(D,), (B, D + 1), (B + 1, D), (1, B, D), ()], ids=str)
def test_bad_step(shape: tuple[int, ...]) -> None:
    message = f"x_t must have shape (batch_size, input_size) = ({B}, {D}); got {shape}."
    with pytest.raises(RuntimeError, match=re.escape(message)):
        autapse.RIN(D, H).stream(B)(torch.zeros(shape))


def test_bad_dtype_of_a_step() -> None:
    with pytest.raises(ValueError, match=r"input must have the dtype of the weights, torch.float32; got torch.float64"):
        autapse.RIN(D, H).stream(B)(torch.zeros(B, D, dtype=torch.float64))


def test_bad_states() -> None:
    stream = autapse.RIN(D, H, num_layers=2).stream(B)
    message = f"h0 must have shape (num_layers·directions, B, H) = (2, {B}, {H}); got (2, {B + 1}, {H})."
    with pytest.raises(RuntimeError, match=re.escape(message)):
        stream.reset(torch.zeros(2, B + 1, H))
    stream(torch.zeros(B, D))  # as it was
    assert stream.position == 1


@every_layer
def test_output_into_a_tensor_of_the_callers(network: Network) -> None:
    layer, x = network.layer(num_layers=2), torch.randn(T, B, D, dtype=torch.float64)
    stream, out = layer.stream(B), torch.full((B, layer.output_size), 7.0, dtype=torch.float64)
    expected = layer(x)[0].detach()
    for x_t, y_t in zip(x, expected, strict=True):
        assert stream(x_t, out=out) is out
        close(out, y_t)


def test_what_a_stream_returned_stays() -> None:
    stream, x = autapse.GRU(D, H).stream(), torch.randn(2, D)
    first = stream(x[0])
    before = first.clone()
    stream(x[1])
    assert torch.equal(first, before)


def test_out_of_another_shape_is_an_error() -> None:
    stream = autapse.GRU(D, H).stream()
    with pytest.raises(ValueError, match=re.escape(f"out must have the output's shape, ({H},); got (1, {H})")):
        stream(torch.zeros(D), out=torch.zeros(1, H))


@every_layer
def test_states_given_in_any_memory_layout(network: Network) -> None:
    layer, x = network.layer(), torch.randn(T, B, D, dtype=torch.float64)
    h0 = network.h0(B)
    turned = [h.detach().transpose(1, 2).contiguous().transpose(1, 2) for h in flat(h0)]
    stream = layer.stream(B)
    stream.reset(turned[0] if len(turned) == 1 else tuple(turned))
    close(through(stream, x), layer(x, h0)[0].detach())
