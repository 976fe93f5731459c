"""Stencils that reach further back: any cell may read the states of several earlier steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError, ShapeError
from tolerance import close

D, H, B, T = 3, 3, 4, 9


class Delayed(autapse.Cell):
    """h_t = tanh(x_t + a·h_{t−1} + b·h_{t−4} + c·t)"""

    stencil = (-1, -4)

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.a = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.tensor(-0.8, dtype=torch.float64))

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
        before, earlier = state
        return (torch.tanh(u + self.a * before + self.b * earlier + 0.01 * t),)


class TwoStates(autapse.Cell):
    """p_t = x_t + q_{t−3}, q_t = p_{t−2} − q_{t−2}"""

    stencil = (-3, -2)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return self.hidden_size, self.hidden_size

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
        _, q3, p2, q2 = state
        return u + q3, p2 - q2


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def written_out(layer: autapse.Recurrent, x: Tensor, past: list[Tensor], start: int = 0) -> list[Tensor]:
    """One sequence in plain Python; past[0] is the latest state."""
    cell = layer.cells["l0"]
    states = list(reversed(past))
    for t, x_t in enumerate(x, start):
        states.append(torch.tanh(x_t + cell.a * states[-1] + cell.b * states[-4] + 0.01 * t))
    return states


def test_a_delay_reads_the_state_of_earlier_steps() -> None:
    layer, x = autapse.Recurrent(Delayed, D, H), draw(T, B, D)
    output, h_n = layer(x)
    for b in range(B):
        states = written_out(layer, x[:, b], [torch.zeros(H, dtype=torch.float64)] * 4)
        close(output[:, b], torch.stack(states[4:]))
        for n in range(4):
            close(h_n[n][0, b], states[-1 - n])


def test_lengths_shorter_than_the_delay_and_initial_states() -> None:
    layer, x, lengths = autapse.Recurrent(Delayed, D, H), draw(T, B, D), [9, 2, 0, 5]
    h0 = tuple(draw(1, B, H) for _ in range(4))
    output, h_n, states = layer(x, h0, lengths=lengths, return_states=True)
    for b, length in enumerate(lengths):
        expected = written_out(layer, x[:length, b], [h[0, b] for h in h0])
        if length:
            close(output[:length, b], torch.stack(expected[4:]))
        assert not output[length:, b].any()
        for n in range(4):
            close(h_n[n][0, b], expected[-1 - n])
    close(states[0][0][:, :, 0], output)


def test_chunks_and_streams_equal_the_whole() -> None:
    layer, x = autapse.Recurrent(Delayed, D, H), draw(T, B, D)
    whole, final = layer(x)
    first, carried = layer(x[:2])
    second, h_n = layer(x[2:], carried, start=2)
    close(torch.cat([first, second]), whole)
    stream = layer.stream(B)
    close(torch.stack([stream(x_t) for x_t in x]), whole.detach())
    for a, b, c in zip(h_n, final, stream.state, strict=True):
        close(a, b)
        close(c, b.detach())


def test_both_directions_packing_recomputation_and_depth() -> None:
    layer = autapse.Recurrent(Delayed, D, H, num_layers=2, bidirectional=True).double()
    for cell in layer.cells.values():
        cell.input_size = cell.input_size  # the second layer reads 2·H features
    one = autapse.Recurrent(Delayed, D, H, bidirectional=True)
    x, lengths = draw(T, B, D), [9, 4, 7, 1]
    output, _ = one(x, lengths=lengths)
    for b, length in enumerate(lengths):
        back = [torch.zeros(H, dtype=torch.float64)] * 4
        turned = x[:length, b].flip(0)
        cell = one.cells["l0_reverse"]
        for t, x_t in enumerate(turned):
            back.append(torch.tanh(x_t + cell.a * back[-1] + cell.b * back[-4] + 0.01 * t))
        close(output[:length, b, H:], torch.stack(back[4:]).flip(0))
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
    unpacked, _ = torch.nn.utils.rnn.pad_packed_sequence(one(packed)[0])
    close(unpacked, output)
    pieces = autapse.Recurrent(Delayed, D, H, bidirectional=True, checkpoint_every=2)
    pieces.load_state_dict(one.state_dict())
    again, _ = pieces(x, lengths=lengths)
    close(again, output)
    for got, want in zip(
        torch.autograd.grad(again.sum(), list(pieces.parameters())),
        torch.autograd.grad(output.sum(), list(one.parameters())),
        strict=True,
    ):
        close(got, want)


def test_a_cell_of_several_states_need_not_read_the_last_one() -> None:
    layer, x = autapse.Recurrent(TwoStates, D, H), draw(T, 1, D)
    _, h_n, states = layer(x, return_states=True)
    p, q = [torch.zeros(H, dtype=torch.float64)] * 3, [torch.zeros(H, dtype=torch.float64)] * 3
    for x_t in x[:, 0]:
        p, q = [*p, x_t + q[-3]], [*q, p[-2] - q[-2]]
    close(states[0][0][:, 0, 0], torch.stack(p[3:]))
    close(states[0][1][:, 0, 0], torch.stack(q[3:]))
    assert len(h_n) == 6
    close(h_n[2][0, 0], p[-2])
    assert layer.final_output(h_n).shape == (1, H)


def test_a_single_step_and_its_jacobian() -> None:
    cell, x = Delayed(D, H), draw(B, D)
    past = tuple(draw(B, H) for _ in range(4))
    new = cell(x, past)
    assert len(new) == 4
    close(new[0], torch.tanh(x + cell.a * past[0] + cell.b * past[3]))
    close(new[3], past[2])
    jacobian = cell.jacobian(x, past).detach()
    slope = 1 - new[0].detach().square()
    close(jacobian[:, :H, :H], torch.diag_embed(slope * cell.a.detach()))
    close(jacobian[:, :H, 3 * H :], torch.diag_embed(slope * cell.b.detach()))
    close(jacobian[:, H : 2 * H, :H], torch.eye(H, dtype=torch.float64).expand(B, -1, -1))


def test_what_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"unfold must be None: Delayed has the stencil \(-1, -4\)"):
        autapse.Recurrent(Delayed, D, H, unfold=autapse.unfold.Parallel())
    layer = autapse.Recurrent(Delayed, D, H)
    with pytest.raises(InputError, match="h0 must be a tuple of 4 states"):
        layer(draw(T, B, D), draw(1, B, H))
    with pytest.raises(ShapeError, match="h0 must have shape"):
        layer(draw(T, B, D), tuple(draw(1, B, H + 1) for _ in range(4)))
