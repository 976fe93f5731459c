"""Cells of one's own: coRNN in a dozen lines, and what a short constructor may leave out."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

import autapse
from autapse.checks import InputError, ShapeError
from autapse.forms import Leaky
from networks import D, H
from tolerance import close

T, B = 5, 4
LENGTHS = [3, 5, 0, 1]


class CoRNN(autapse.Cell):
    """z' = z + Δ·(tanh(W·y + U·z + V·x + b) − γ·y − ε·z), y' = y + Δ·z'"""

    def __init__(self, input_size: int, hidden_size: int, dt: float = 0.1, gamma: float = 1.0, epsilon: float = 0.5):
        super().__init__(input_size, hidden_size)
        self.dt, self.gamma, self.epsilon = dt, gamma, epsilon
        self.input, self.hidden = (
            nn.Linear(input_size, hidden_size),
            nn.Linear(2 * hidden_size, hidden_size, bias=False),
        )

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return self.hidden_size, self.hidden_size

    def drive(self, x: Tensor) -> Tensor:
        return self.input(x)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
        y, z = state
        z = z + self.dt * (torch.tanh(u + self.hidden(torch.cat(state, -1))) - self.gamma * y - self.epsilon * z)
        return y + self.dt * z, z


def by_hand(cell: CoRNN, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """One step of one sequence, from the raw parameters."""
    W, U = cell.hidden.weight[:, : len(y)], cell.hidden.weight[:, len(y) :]
    force = torch.tanh(W @ y + U @ z + cell.input.weight @ x + cell.input.bias)
    z = z + cell.dt * force - cell.dt * cell.gamma * y - cell.dt * cell.epsilon * z
    return y + cell.dt * z, z


def loops(layer: Any, x: Tensor, h0: tuple[Tensor, Tensor]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Output and final states of one sequence [T, D], with every loop written out."""
    rows, ys, zs = list(x), [], []
    index = 0
    for number in range(layer.num_layers):
        sides = []
        for end in ("", "_reverse") if layer.bidirectional else ("",):
            cell = layer.cells[f"l{number}{end}"]
            y, z = h0[0][index], h0[1][index]
            index += 1
            side: list[Any] = [None] * len(rows)
            for position in reversed(range(len(rows))) if end else range(len(rows)):
                y, z = by_hand(cell, rows[position], y, z)
                side[position] = y
            sides.append(side)
            ys.append(y)
            zs.append(z)
        rows = [torch.cat(parts) for parts in zip(*sides, strict=True)]
    return torch.stack(rows), ys, zs


def cornn(**keywords: Any) -> Any:
    return autapse.Recurrent(CoRNN, D, H, dtype=torch.float64, dt=0.3, gamma=1.7, epsilon=0.9, **keywords)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["padded", "ragged"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_cornn_is_its_loops(bidirectional: bool, num_layers: int, lengths: list[int] | None, batch_first: bool) -> None:
    layer = cornn(num_layers=num_layers, bidirectional=bidirectional, batch_first=batch_first)
    x = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    count = num_layers * (2 if bidirectional else 1)
    h0 = tuple(torch.randn(count, B, H, dtype=torch.float64, requires_grad=True) for _ in range(2))
    output, (y_n, z_n) = layer(x.transpose(0, 1) if batch_first else x, h0, lengths=lengths)
    output = output.transpose(0, 1) if batch_first else output
    mine, theirs = [], []
    for b, n in enumerate(lengths or [T] * B):
        assert not output[n:, b].any()
        if n == 0:
            close((y_n[:, b], z_n[:, b]), (h0[0][:, b], h0[1][:, b]))
            continue
        expected, ys, zs = loops(layer, x[:n, b], (h0[0][:, b], h0[1][:, b]))
        mine += [output[:n, b], y_n[:, b], z_n[:, b]]
        theirs += [expected, torch.stack(ys), torch.stack(zs)]
    close(mine, theirs)
    leaves = [x, *h0, *layer.parameters()]
    gradients = [torch.autograd.grad(sum(r.square().sum() for r in side), leaves) for side in (mine, theirs)]
    close(gradients[0], gradients[1])


def test_cornn_streams() -> None:
    layer, x = cornn(num_layers=2), torch.randn(T, B, D, dtype=torch.float64)
    stream = layer.stream(B)
    output, h_n = layer(x)
    close(torch.stack([stream(x_t) for x_t in x]), output.detach())
    close(stream.state, tuple(h.detach() for h in h_n))
    stream.reset(h_n)
    close(stream(x[0]), layer(x[:1], h_n)[0][0].detach())


def test_cornn_has_a_jacobian() -> None:
    cell = cornn().cells["l0"]
    x, y, z = torch.randn(B, D).double(), torch.randn(B, H).double(), torch.randn(B, H).double()
    found = cell.jacobian(x, (y, z))
    for b in range(B):

        def step(joined: Tensor, b: int = b) -> Tensor:
            return torch.cat(by_hand(cell, x[b], *joined.split(H)))

        close(found[b], jacobian(step, torch.cat([y[b], z[b]])))
        close(cell.jacobian(x[b], (y[b], z[b])), found[b])


def test_cornn_returns_its_velocities() -> None:
    layer = cornn(bidirectional=True)
    output, (_, z_n), states = layer(torch.randn(T, B, D, dtype=torch.float64), return_states=True)
    assert [s.shape for s in states[0]] == [(T, B, 2, H), (T, B, 2, H)]
    close(states[0][0].flatten(2), output)
    close(states[0][1][-1, :, 0], z_n[0])


def test_cornn_as_a_module() -> None:
    layer = cornn(num_layers=2, bidirectional=True)
    x = torch.randn(T, B, D, dtype=torch.float64)
    close(copy.deepcopy(layer)(x), layer(x))
    assert (
        repr(layer) == f"Recurrent(CoRNN, {D}, {H}, num_layers=2, bidirectional=True, dt=0.3, gamma=1.7, epsilon=0.9)"
    )
    assert "cells.l1_reverse.hidden.weight" in layer.state_dict()
    before = layer.cells["l0"].hidden.weight.detach().clone()
    layer.reset_parameters()
    assert not torch.equal(layer.cells["l0"].hidden.weight, before)
    assert layer.cells["l0"].hidden.weight.abs().max() <= 1 / H**0.5


def test_cornn_sizes_of_their_own() -> None:
    layer = autapse.Recurrent(CoRNN, D, [5, 3], bidirectional=True)
    output, (y_n, z_n) = layer(torch.randn(T, B, D))
    assert output.shape == (T, B, 6)
    assert [h.shape for h in (*y_n, *z_n)] == [(2, B, 5), (2, B, 3)] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_short_constructor_still_gets_dtype_and_device(dtype: torch.dtype) -> None:
    layer = autapse.Recurrent(CoRNN, D, H, dtype=dtype)
    assert {p.dtype for p in layer.parameters()} == {dtype}
    hollow = autapse.Recurrent(CoRNN, D, H, dtype=dtype, device="meta")
    assert {(p.dtype, p.device.type) for p in hollow.parameters()} == {(dtype, "meta")}


def test_a_cell_that_takes_no_bias_says_so() -> None:
    with pytest.raises(InputError, match="bias must be True for CoRNN, whose constructor takes no bias; got False"):
        autapse.Recurrent(CoRNN, D, H, bias=False)


def test_unknown_option_of_a_user_cell() -> None:
    options = "dt, gamma, epsilon, checkpoint_every, clip_hidden, information_flow"
    message = f"option of CoRNN must be one of this layer's: {options}; got 'gama'. Did you mean 'gamma'?"
    with pytest.raises(InputError, match=re.escape(message)):
        autapse.Recurrent(CoRNN, D, H, gama=1.0)


class Scaled(autapse.Cell):
    """h' = tanh(x + s·I·h), with `prepare`, factory arguments through **keywords, and an output of its own."""

    def __init__(self, input_size: int, hidden_size: int, gain: float = 2.0, **factory: Any) -> None:
        super().__init__(input_size, hidden_size, **factory)
        self.gain = gain
        self.scale = nn.Parameter(torch.full((1,), 0.5, **self._factory))
        self.prepared = 0

    def prepare(self) -> Tensor:
        self.prepared += 1
        return self.scale * torch.eye(self.hidden_size, dtype=self.scale.dtype)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Tensor, t: int) -> tuple[Tensor, ...]:
        return (torch.tanh(u + state[0] @ weights),)

    def output(self, state: tuple[Tensor, ...]) -> Tensor:
        return torch.cat([state[0], self.gain * state[0]], dim=-1)

    @property
    def output_size(self) -> int:
        return 2 * self.hidden_size


def test_prepare_output_and_options_of_a_user_cell() -> None:
    layer = autapse.Recurrent(Scaled, 3, 3, bidirectional=True, gain=-1.0, dtype=torch.float64, bias=False)
    x = torch.randn(T, B, 3, dtype=torch.float64)
    output, h_n = layer(x)
    h = torch.zeros(B, 3, dtype=torch.float64)
    for t in range(T):
        h = torch.tanh(x[t] + 0.5 * h)
        close(output[t, :, :6], torch.cat([h, -h], dim=-1))
    close(h_n[0], h)
    assert output.shape == (T, B, 12)
    assert layer.output_size == 12
    assert [cell.prepared for cell in layer.cells.values()] == [1, 1]
    assert layer.cells["l0"].bias is False


def test_a_wider_output_feeds_the_next_layer_and_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = autapse.Recurrent(Scaled, 3, [3, 6], dtype=torch.float64)
    x = torch.randn(T, B, 3, dtype=torch.float64)
    expected = layer(x)[0].detach()
    assert layer.cells["l1"].input_size == 6
    calls: list[int] = []
    prepare = Scaled.prepare
    monkeypatch.setattr(Scaled, "prepare", lambda cell: calls.append(cell.hidden_size) or prepare(cell))
    stream = layer.stream(B)
    close(torch.stack([stream(x_t) for x_t in x]), expected)
    assert calls == [3, 6], "once for each cell, whatever the number of steps"


class Sum(autapse.Cell):
    """h' = h + x, without a parameter."""

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
        return (state[0] + u,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_cell_without_parameters(dtype: torch.dtype) -> None:
    layer, x = autapse.Recurrent(Sum, D, D), torch.randn(T, B, D, dtype=dtype)
    close(layer(x)[0], x.cumsum(0))
    stream = layer.stream(B)
    close(torch.stack([stream(x_t) for x_t in x]), x.cumsum(0))


class Bare(Sum):
    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> Any:
        return state[0] + u


class TooMany(Sum):
    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
        return state[0] + u, state[0]


@pytest.mark.parametrize(("cell", "got"), [(Bare, "'Tensor'"), (TooMany, f"{[(B, D), (B, D)]}")])
def test_a_step_that_returns_something_else_says_so(cell: type[autapse.Cell], got: str) -> None:
    rule = f"must return a tuple with one tensor per state, of shapes {[(B, D)]}; got {got}"
    layer, x = autapse.Recurrent(cell, D, D), torch.randn(T, B, D)
    alone = cell(D, D)
    for run in (lambda: layer(x), lambda: layer.stream(B)(x[0]), lambda: alone(x[0]), lambda: alone.jacobian(x[0])):
        with pytest.raises(ShapeError, match=re.escape(f"step of {cell.__name__} {rule}")):
            run()


@pytest.mark.parametrize("cell", [CoRNN(D, H), "RIN", None, nn.Linear], ids=["instance", "str", "None", "Module"])
def test_only_cell_classes(cell: Any) -> None:
    with pytest.raises(InputError, match=r"(?s)cell must be a subclass of autapse.Cell; got .*Pass the class itself"):
        autapse.Recurrent(cell, D, H)


def test_built_in_cells_go_through_recurrent_too() -> None:
    torch.manual_seed(0)
    general = autapse.Recurrent(autapse.cells.RIN, D, H, num_layers=2, transitions=2)
    torch.manual_seed(0)
    named = autapse.RIN(D, H, num_layers=2, transitions=2)
    x = torch.randn(T, B, D)
    close(general(x), named(x))
    assert list(general.state_dict()) == list(named.state_dict())


class Halved(Leaky):
    """A form of a user's own: it derives from one that has a kernel, and has another step."""

    def step(self, u: Tensor, state: tuple[Tensor, ...], t: int) -> tuple[Tensor, ...]:
        return (0.5 * super().step(u, state, t)[0],)


class HalvedRNN(autapse.cells.RNN):
    def prepare(self) -> Halved:
        return Halved(self.weight_hh, self.nonlinearity)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_form_of_a_users_own_keeps_its_step(bidirectional: bool) -> None:
    layer = autapse.Recurrent(HalvedRNN, 2, 3, bidirectional=bidirectional)
    x = torch.randn(4, 5, 2)
    output, _ = layer(x)
    for key, part, steps in (("l0", output[..., :3], range(4)), ("l0_reverse", output[..., 3:], range(3, -1, -1))):
        if key not in layer.cells:
            continue
        cell, h = layer.cells[key], torch.zeros(5, 3)
        for t in steps:
            h = 0.5 * torch.tanh(cell.drive(x[t]) + h @ cell.weight_hh.t())
            assert torch.allclose(part[t], h, atol=1e-6)
    if not bidirectional:
        stream = layer.stream(5)
        assert torch.allclose(torch.stack([stream(x_t) for x_t in x]), output, atol=1e-6)


def test_a_drive_of_ones_own_may_use_that_of_its_base() -> None:
    class Doubled(autapse.cells.GRU):
        def drive(self, x: Tensor) -> Tensor:
            return super().drive(2 * x)

    torch.manual_seed(0)
    doubled = autapse.Recurrent(Doubled, 3, 4, dtype=torch.float64)
    torch.manual_seed(0)
    plain = autapse.Recurrent(autapse.cells.GRU, 3, 4, dtype=torch.float64)
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(doubled(x)[0], plain(2 * x)[0])
