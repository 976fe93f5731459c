"""cell.jacobian in closed form against automatic differentiation of the equation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

import autapse
from networks import BASIC, SOLVED, D, H, Network, every_layer, every_variant, raw
from tolerance import close

B = 3


def by_equation(network: Network, cell: Any, x: Tensor, state: tuple[Tensor, ...], t: int = 0) -> Tensor:
    """d state' / d state of one sequence, all states in one vector."""
    sizes = [len(s) for s in state]

    def step(joined: Tensor) -> Tensor:
        return torch.cat(network.step(raw(cell), x, joined.split(sizes), t))

    return jacobian(step, torch.cat(state))


@every_variant
@pytest.mark.parametrize("t", [0, 5])
def test_closed_form_is_the_derivative_of_the_equation(network: Network, t: int) -> None:
    cell = network.cell()
    x, state = torch.randn(B, D, dtype=torch.float64), network.random_state(B)
    expected = torch.stack([by_equation(network, cell, x[b], tuple(s[b] for s in state), t) for b in range(B)])
    assert (expected.abs().max() > 1e-2) == bool(cell.stencil or cell.carried_sizes != cell.state_sizes)
    given = state[0] if len(state) == 1 else state
    close(cell.jacobian(x, given, t), expected)


@every_variant
def test_unbatched(network: Network) -> None:
    cell = network.cell()
    x, state = torch.randn(D, dtype=torch.float64), network.random_state()
    total = sum(network.state_sizes())
    found = cell.jacobian(x, state)
    assert found.shape == (total, total)
    close(found, by_equation(network, cell, x, state))


@every_layer
def test_the_state_has_a_default(network: Network) -> None:
    cell, x = network.cell(), torch.randn(D, dtype=torch.float64)
    start = tuple(part.detach() for part in network.initial_state(raw(cell)))
    close(cell.jacobian(x), by_equation(network, cell, x, start))


@pytest.mark.parametrize("network", [*BASIC, *SOLVED], ids=str)  # without a state it is zero, and has no gradient
def test_differentiable_itself(network: Network) -> None:
    """A penalty on the Jacobian can be trained: its gradient is that of the generic Jacobian by autograd."""
    cell = network.cell()
    x, state = torch.randn(B, D, dtype=torch.float64), network.random_state(B)

    def gradients(found: Tensor) -> Any:
        return torch.autograd.grad(found.square().sum(), list(cell.parameters()), materialize_grads=True)

    generic = autapse.Cell._jacobian(cell, cell.drive(x), state, cell.prepare(), 0)
    close(gradients(cell.jacobian(x, state)), gradients(generic))


def test_no_graph_without_grad() -> None:
    cell = autapse.cells.GRU(D, H)
    with torch.no_grad():
        assert not cell.jacobian(torch.randn(B, D)).requires_grad


class Pendulum(autapse.Cell):
    """Two states of different sizes, no parameters: q' = q + p₁, p' = p − sin(q)·x."""

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (1, 2)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
        q, p = state
        return q + p[:, :1], p - torch.sin(q) * u * (t + 1)


@pytest.mark.parametrize("grad", [True, False])
def test_generic_jacobian_of_a_user_cell(grad: bool) -> None:
    cell = Pendulum(2, 1)
    q, p = torch.randn(B, 1, dtype=torch.float64), torch.randn(B, 2, dtype=torch.float64)
    x = torch.randn(B, 2, dtype=torch.float64)
    with torch.set_grad_enabled(grad):
        found = cell.jacobian(x, (q, p), t=2)
    for b in range(B):
        by_hand = torch.eye(3, dtype=torch.float64)
        by_hand[0, 1] = 1
        by_hand[1:, 0] = -torch.cos(q[b, 0]) * x[b] * 3
        close(found[b], by_hand)
        close(cell.jacobian(x[b], (q[b], p[b]), t=2), by_hand)


def test_generic_jacobian_at_no_sequence() -> None:
    assert Pendulum(2, 1).jacobian(torch.zeros(0, 2)).shape == (0, 3, 3)
