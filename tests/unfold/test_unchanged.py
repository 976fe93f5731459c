"""Tensors that a backward pass reads again: a change in between is autograd's error, never a wrong gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.unfold import Parallel
from networks import perturb
from tolerance import close

D, H, T, B = 3, 4, 6, 2
FLOAT64 = {"dtype": torch.float64}


class Plain(autapse.Cell):
    """A cell of the user's own, which runs in plain PyTorch."""

    def __init__(self, input_size: int, hidden_size: int, **factory: Any) -> None:
        super().__init__(input_size, hidden_size, **factory)
        self.W, self.R = self._parameter(hidden_size, input_size), self._parameter(hidden_size, hidden_size)
        self.reset_parameters()

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
        return (torch.tanh(u @ self.W.T + state[0] @ self.R.T),)


MAKE: dict[str, Callable[..., Any]] = {
    "GRU": lambda **k: autapse.GRU(D, H, **FLOAT64, **k),
    "RIN": lambda **k: autapse.RIN(D, H, **FLOAT64, **k),
    "OrthogonalRNN": lambda **k: autapse.OrthogonalRNN(D, H, **FLOAT64, **k),
    "Plain": lambda **k: autapse.Recurrent(Plain, D, H, **FLOAT64, **k),
    "ImplicitMidpoint": lambda **k: autapse.ImplicitMidpoint(D, H, **FLOAT64, **k),
    "EquilibriumLinear": lambda **k: autapse.EquilibriumLinear(D, H, **FLOAT64, **k),
}
every_layer = pytest.mark.parametrize("name", MAKE)
MESSAGE = r"has been modified by an inplace operation: \[.*\] is at version \d+; expected version \d+ instead"


def loss(layer: Any, x: Tensor) -> Tensor:
    return layer(x)[0].square().sum()


def step_of_an_optimizer(layer: Any, x: Tensor) -> None:
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD(layer.parameters(), lr=0.1).step()


def load(layer: Any, x: Tensor) -> None:
    layer.load_state_dict({name: 2 * value for name, value in layer.state_dict().items()})


def input_in_place(layer: Any, x: Tensor) -> None:
    with torch.no_grad():
        x.mul_(2)


@pytest.mark.parametrize("change", [step_of_an_optimizer, load, input_in_place])
@every_layer
def test_a_change_before_a_checkpointed_backward_pass_is_an_error(name: str, change: Any) -> None:
    layer = perturb(MAKE[name](checkpoint_every=2), 0.1)
    x = torch.randn(T, B, D, dtype=torch.float64)
    result = loss(layer, x)
    change(layer, x)
    with pytest.raises(RuntimeError, match=MESSAGE):
        result.backward()


@every_layer
def test_new_memory_is_an_error_too(name: str) -> None:
    layer = MAKE[name](checkpoint_every=2)
    result = loss(layer, torch.randn(T, B, D, dtype=torch.float64))
    for parameter in layer.parameters():
        parameter.data = 2 * parameter.data
    with pytest.raises(RuntimeError, match=r"has been replaced by another: \[torch.DoubleTensor"):
        result.backward()


@every_layer
def test_nothing_is_said_where_nothing_changed(name: str) -> None:
    layer = perturb(MAKE[name](checkpoint_every=2), 0.1)
    whole = MAKE[name]()
    whole.load_state_dict(layer.state_dict())
    x = torch.randn(T, B, D, dtype=torch.float64)
    for one in (layer, whole):
        loss(one, x).backward()
    close([p.grad for p in layer.parameters()], [p.grad for p in whole.parameters()])


@pytest.mark.parametrize("name", ["GRU", "RIN", "OrthogonalRNN", "Plain"])
def test_parallel_does_not_use_changed_weights(name: str) -> None:
    layer = perturb(MAKE[name](unfold=Parallel()), 0.1)
    result = loss(layer, torch.randn(T, B, D, dtype=torch.float64))
    step_of_an_optimizer(layer, result)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()
