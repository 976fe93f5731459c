"""A network that reads no state: all steps at once, and strictly less powerful than one that does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import autapse
from autapse.checks import InputError
from networks import D, H
from tolerance import close

T, B = 6, 3


class Clock(autapse.Cell):
    """h' = x + t, which reads the position and no state."""

    stencil = ()

    def step(self, u: Any, state: Any, weights: Any, t: int) -> Any:
        assert state == ()
        return (u + t,)


def test_all_steps_are_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, sizes = autapse.Feedforward(D, H, num_layers=2), []
    step = autapse.cells.Feedforward.step
    monkeypatch.setattr(
        autapse.cells.Feedforward, "step", lambda self, u, *rest: sizes.append(len(u)) or step(self, u, *rest)
    )
    layer(torch.randn(T, B, D))
    assert sizes == [T * B, T * B]


def test_it_is_a_linear_map_and_a_nonlinearity() -> None:
    layer, x = autapse.Feedforward(D, H, nonlinearity="relu"), torch.randn(T, B, D)
    cell = layer.cells["l0"]
    output, h_n = layer(x, torch.randn(1, B, H))
    close(output, torch.relu(torch.nn.functional.linear(x, cell.weight_ih, cell.bias_h)))
    assert torch.equal(h_n[0], output[-1])


def test_a_position_may_be_read() -> None:
    layer, x = autapse.Recurrent(Clock, 2, 2, bidirectional=True), torch.zeros(4, 2, 2)
    output, h_n = layer(x, lengths=[4, 2], start=10)
    forwards, backwards = output[:, 1, 0], output[:, 1, 2]
    assert forwards.tolist() == [10, 11, 0, 0]
    assert backwards.tolist() == [11, 10, 0, 0]
    assert h_n[:, :, 0].tolist() == [[13, 11], [13, 11]]


def test_what_does_not_apply_is_refused() -> None:
    with pytest.raises(InputError, match="option of Feedforward must be one of"):
        autapse.Feedforward(D, H, checkpoint_every=3)
    with pytest.raises(InputError, match=r"unfold must be None: Feedforward has the stencil \(\)"):
        autapse.Feedforward(D, H, unfold=autapse.unfold.Parallel())
    with pytest.raises(InputError, match=r"unfold must be None: GRU has the stencil \(-1,\), and Pointwise"):
        autapse.GRU(D, H, unfold=autapse.unfold.Pointwise())
    with pytest.raises(InputError, match="condition must be input for Feedforward, which reads no state"):
        autapse.models.Generator(
            "feedforward", autapse.models.Elements(symbols=3), "vector", 2, condition="state", hidden_size=4
        )
