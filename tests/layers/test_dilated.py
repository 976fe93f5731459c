"""Dilated stacks against a loop with torch.nn's cells, and their states from call to call."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.models.bridge import Bridge
from autapse.native import library, ops
from autapse.unfold import Parallel
from tolerance import close

D, H, LAYERS, T = 3, 4, 3, 13
LENGTHS = [13, 1, 0, 6, 12, 3]


def make(cell: str = "gru", **options: Any) -> Any:
    return autapse.Dilated(D, H, num_layers=LAYERS, cell=cell, dtype=torch.float64, **options)


def by_loop(layer: Any, sequence: Tensor, d: tuple[int, ...] = (1, 2, 4)) -> Tensor:  # [T, D] -> [T, H]
    """Each layer reads its own state of d steps before, with torch.nn's cells."""
    rows = list(sequence)
    for number, steps in enumerate(d):
        inner = layer.cells[f"l{number}"].inner
        kind = torch.nn.LSTMCell if isinstance(inner, autapse.cells.LSTM) else torch.nn.GRUCell
        own = kind(len(rows[0]), H, dtype=torch.float64)
        parameters = {name.replace("_l0", ""): value for name, value in inner.named_parameters()}
        states: list[Any] = []
        for t, x in enumerate(rows):
            before = states[t - steps] if t >= steps else None
            states.append(torch.func.functional_call(own, parameters, (x, before)))
        rows = [state[0] if isinstance(state, tuple) else state for state in states]
    return torch.stack(rows)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_stack_doubles_its_reach_from_layer_to_layer(cell: str) -> None:
    layer = make(cell)
    x = torch.randn(T, len(LENGTHS), D, dtype=torch.float64)
    output, _ = layer(x, lengths=LENGTHS)
    for b, length in enumerate(LENGTHS):
        if length:
            close(output[:length, b], by_loop(layer, x[:length, b]))
    assert not output[1:, 1].any()


@pytest.mark.parametrize(("options", "d"), [({"dilation": 2}, (2, 4, 8)), ({"growth": 3}, (1, 3, 9))])
def test_the_first_dilation_and_its_growth(options: dict[str, Any], d: tuple[int, ...]) -> None:
    layer = make(**options)
    x = torch.randn(T, 1, D, dtype=torch.float64)
    close(layer(x)[0][:, 0], by_loop(layer, x[:, 0], d))


def test_gradients_are_those_of_the_loop() -> None:
    layer = make()
    x = torch.randn(T, 2, D, dtype=torch.float64, requires_grad=True)
    lengths, weight = [13, 7], torch.randn(T, H, dtype=torch.float64)
    leaves = [x, *layer.parameters()]
    output, _ = layer(x, lengths=lengths)
    actual = torch.autograd.grad(sum((output[:n, b] * weight[:n]).sum() for b, n in enumerate(lengths)), leaves)
    expected = sum((by_loop(layer, x[:n, b]) * weight[:n]).sum() for b, n in enumerate(lengths))
    close(actual, torch.autograd.grad(expected, leaves))


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_pieces_of_a_sequence_equal_the_whole(cut: int) -> None:
    layer = make("lstm")
    x = torch.randn(T, 2, D, dtype=torch.float64)
    whole, last = layer(x)
    first, carried = layer(x[:cut])
    second, final = layer(x[cut:], carried)
    close(torch.cat([first, second]), whole)
    close(final, last)


def test_h_n_has_the_last_states_of_each_sequence_latest_first() -> None:
    layer = make()
    x = torch.randn(T, len(LENGTHS), D, dtype=torch.float64)
    h0 = tuple(torch.randn(n, len(LENGTHS), H, dtype=torch.float64) for n in (3, 2, 1, 1))
    _, h_n, states = layer(x, h0, lengths=LENGTHS, return_states=True)
    assert [part.shape[0] for part in h_n] == [3, 2, 1, 1]  # layers that carry 1, 2 and 4 states
    for number, steps in enumerate((1, 2, 4)):
        trace = states[number][0][:, :, 0]  # [T, B, H]
        for b, length in enumerate(LENGTHS):
            past = [h0[k][number - LAYERS, b] for k in reversed(range(steps))]
            latest = [*past, *trace[:length, b]][::-1]
            for k in range(steps):
                close(h_n[k][number - LAYERS, b], latest[k])


def test_a_stream_equals_the_whole() -> None:
    layer = make()
    x = torch.randn(T, 2, D, dtype=torch.float64)
    stream = layer.stream(2)
    close(torch.stack([stream(row) for row in x]), layer(x)[0].detach())
    close(stream.state, layer(x)[1])


def test_both_directions_and_sizes_of_layers() -> None:
    layer = autapse.Dilated(D, [5, 4], bidirectional=True, cell="gru", dtype=torch.float64)
    x = torch.randn(T, 3, D, dtype=torch.float64)
    output, h_n = layer(x, lengths=[13, 4, 9])
    assert output.shape == (T, 3, 8)
    assert [[tuple(part.shape) for part in parts] for parts in h_n] == [[(2, 3, 5), (2, 3, 4)], [(2, 3, 4)]]
    alone, _ = layer(x[:4, 1:2])
    close(output[:4, 1:2], alone)
    close(layer(x, h_n)[0], layer(x, h_n, lengths=[T] * 3)[0])


def test_the_kernels_take_t_over_d_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    if not library.available():
        pytest.skip("there are no kernels")
    taken, scan = [], ops.scan

    def counting(operands: Any, sizes: Tensor, *rest: Any, **options: Any) -> Any:
        taken.append(sizes.tolist())
        return scan(operands, sizes, *rest, **options)

    monkeypatch.setattr(ops, "scan", counting)
    autapse.Dilated(D, H, cell="gru", dilation=4)(torch.randn(10, 2, D))
    assert taken == [[8, 8, 4]]


def test_a_bridge_gives_states_to_every_layer() -> None:
    layer = autapse.Dilated(D, H, num_layers=LAYERS)
    h0 = Bridge(5, layer)(torch.randn(2, 5))
    assert [tuple(part.shape) for part in h0] == [(3, 2, H), (2, 2, H), (1, 2, H), (1, 2, H)]
    layer(torch.randn(T, 2, D), h0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dilation": 0}, "dilation must be an integer of at least 1"),
        ({"growth": 1.5}, "growth must be an integer of at least 1; got 1.5."),
        ({"growth": 1000}, "growth must give at most 16384 steps, also in layer 2; got 1000."),
        ({"cell": "timedelay"}, "cell must read the state of one step before, .*; got 'timedelay'. Try gru."),
        ({"cell": "equilibriumtanh"}, "cell must read the state of one step before, and solve no equation"),
        ({"cell": "implicitgru"}, "cell must look back"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        autapse.Dilated(D, H, num_layers=3, **options)


def test_h0_of_a_stack_is_checked() -> None:
    layer = make()
    x = torch.randn(T, 2, D, dtype=torch.float64)
    with pytest.raises(InputError, match="h0 must be a tuple of 4 states; got 1"):
        layer(x, (torch.zeros(3, 2, H, dtype=torch.float64),))
    wrong = tuple(torch.zeros(3, 2, H, dtype=torch.float64) for _ in range(4))
    with pytest.raises(InputError, match=r"h0 must have shape \(num_layers·directions, B, H\) = \(2, 2, 4\)"):
        layer(x, wrong)


@pytest.mark.parametrize("settings", [{"unfold": Parallel()}, {"information_flow": 1.0}], ids=["parallel", "flow"])
def test_settings_that_need_the_step_before_are_refused_for_a_stack(settings: dict[str, Any]) -> None:
    """The first layer reads the step before, the second one does not."""
    autapse.Dilated(3, 4, **settings)(torch.randn(6, 2, 3))
    with pytest.raises(InputError, match=r"for Dilated|Dilated has the stencil"):
        autapse.Dilated(3, 4, num_layers=2, **settings)
