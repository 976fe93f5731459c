"""The states and Jacobians of a trajectory against the layer's own calls and automatic differentiation."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.diagnostics.trajectories import trajectory
from autapse.models import Tagger
from networks import COMPOSED_VARIANTS, VARIANTS, D, H, Network
from tolerance import close

T, B = 6, 3
LENGTHS = [6, 0, 4]


class Delayed(autapse.Cell):
    """h' = tanh(0.5·h_{t−1} + 0.4·h_{t−3} + x)"""

    stencil = (-1, -3)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
        before, earlier = state
        return (torch.tanh(0.5 * before + 0.4 * earlier + u),)


def draw(batch_first: bool = False) -> Tensor:
    return torch.randn(*((B, T) if batch_first else (T, B)), D, dtype=torch.float64)


def stepped(layer: Any, x_t: Tensor, flat: Tensor, sizes: tuple[int, ...], t: int) -> Tensor:
    """One step of a layer of one cell by a call of the layer, from a state in one row."""
    parts = [part.view(1, 1, -1) for part in flat.split(sizes)]
    h_n = layer(x_t.view(1, 1, -1), parts[0] if len(parts) == 1 else tuple(parts), start=t)[1]
    return torch.cat([part.flatten() for part in (h_n if isinstance(h_n, tuple) else (h_n,))])


def check_steps(layer: Any, x: Tensor, path: Any) -> None:
    """Each step follows from the state before it, and its Jacobian is that of the layer's own step."""
    sizes = path.cell.carried_sizes
    for t, b in [(0, 0), (3, 2), (5, 0)]:
        before = path.before[t, b]
        close(stepped(layer, x[t, b], before, sizes, t).detach(), path.after[t, b])
        expected = torch.autograd.functional.jacobian(
            lambda flat, t=t, b=b: stepped(layer, x[t, b], flat, sizes, t), before
        )
        close(path.jacobians(torch.tensor([t]), torch.tensor([b]))[0], expected)
        if t + 1 < path.lengths[b]:
            close(path.before[t + 1, b], path.after[t, b])


@pytest.mark.parametrize("network", [*VARIANTS, *COMPOSED_VARIANTS], ids=str)
def test_steps_and_jacobians_of_every_network(network: Network) -> None:
    layer, x = network.layer(), draw()
    path = trajectory(layer, x, LENGTHS)
    check_steps(layer, x, path)
    output, _ = layer(x, lengths=LENGTHS)
    close(path.cell.output(path.after.split(path.cell.carried_sizes, -1))[:4, 2], output[:4, 2].detach())


@pytest.mark.parametrize(
    "make",
    [
        lambda: autapse.EquilibriumTanh(D, H, dtype=torch.float64),
        lambda: autapse.EquilibriumTanh(D, H, inner_steps=2, eta="per_step", max_length=3, dtype=torch.float64),
        lambda: autapse.ImplicitMidpoint(D, H, dtype=torch.float64),
        lambda: autapse.ERNN(D, H, inner_steps=2, eta="per_step", max_length=4, dtype=torch.float64),
        lambda: autapse.Memory(D, H, slots=4, width=3, dtype=torch.float64),
        lambda: autapse.Recurrent(Delayed, D, D, dtype=torch.float64),
    ],
)
def test_steps_of_rules_memories_and_delays(make: Any) -> None:
    layer, x = make(), draw()
    check_steps(layer, x, trajectory(layer, x, LENGTHS))


def test_the_walks_visit_every_step_of_every_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = autapse.GRU(D, H, dtype=torch.float64), draw()
    path = trajectory(layer, x, LENGTHS)
    monkeypatch.setattr("autapse.diagnostics.trajectories.CHUNK", 4 * B * H * H)  # four steps at a time
    for t, matrices in path.forwards():
        close(matrices[0], path.jacobians(torch.tensor([t]), torch.tensor([0]))[0])
    for lag, matrices in path.backwards():
        close(matrices[2], path.jacobians(torch.tensor([max(0, 3 - lag)]), torch.tensor([2]))[0])
    assert (t, lag) == (5, 5)


@pytest.mark.parametrize("batch_first", [False, True])
def test_layers_and_directions(batch_first: bool) -> None:
    layer = autapse.LSTM(D, H, num_layers=2, bidirectional=True, batch_first=batch_first, dtype=torch.float64)
    x = draw(batch_first)
    _, _, states = layer(x, lengths=LENGTHS, return_states=True)
    for number in (0, 1):
        for direction in (0, 1):
            path = trajectory(layer, x, LENGTHS, layer=number, reverse=bool(direction))
            h, c = (s.transpose(0, 1)[:, :, direction] if batch_first else s[:, :, direction] for s in states[number])
            both = torch.cat([h, c], dim=-1).detach()
            expected = both[:4, 2].flip(0) if direction else both[:4, 2]  # in the order of reading
            close(path.after[:4, 2], expected)
            cell = layer.cells[f"l{number}_reverse" if direction else f"l{number}"]
            new = cell(path.inputs[2, 2][None], tuple(s[None] for s in path.before[2, 2].split(H)))
            close(torch.cat(new, -1)[0].detach(), path.after[2, 2])


def test_of_a_model() -> None:
    model = Tagger("gru", 2, 3, hidden_size=4, dropout=0.5, num_layers=2, mean=[1.0, 2.0], scale=[2.0, 3.0]).train()
    x = torch.randn(3, 6, 2)
    path = trajectory(model, x.numpy(), [6, 2, 5])
    assert model.training
    scaled = (x - torch.tensor([1.0, 2.0])) / torch.tensor([2.0, 3.0])
    close(path.after, trajectory(model.layer, scaled, [6, 2, 5]).after)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: trajectory(autapse.Feedforward(D, H), draw()), "network must have a recurrence"),
        (
            lambda: trajectory(autapse.ImplicitGRU(D, H), draw()),
            "take steps from one state to the next; got 'ImplicitGRU'",
        ),
        (lambda: trajectory(torch.nn.GRU(D, H), draw()), "network must be a recurrent layer of autapse"),
        (lambda: trajectory(autapse.GRU(D, H), torch.zeros(4, 0, D)), "x must have at least one sequence with a step"),
        (lambda: trajectory(autapse.GRU(D, H), torch.zeros(4, 2, D), [0, 0]), "x must have at least one sequence"),
        (lambda: trajectory(autapse.GRU(D, H), torch.zeros(4, 2, 9)), "with D = "),
        (lambda: trajectory(autapse.GRU(D, H), torch.full((4, 2, D), torch.nan)), "x must lead to finite states"),
        (lambda: trajectory(autapse.GRU(D, H), "words"), "x must be a tensor or an array of numbers"),
        (lambda: trajectory(autapse.GRU(D, H), torch.zeros(4, 2, D), layer=1), "layer must be an integer"),
        (lambda: trajectory(autapse.GRU(D, H), torch.zeros(4, 2, D), reverse=True), "reverse must be False"),
        (
            lambda: trajectory(autapse.RNN(D, 1500), torch.zeros(1, 1, D)).check_dense(),
            "network must have at most 1024 units in its state for a dense Jacobian; got 1500",
        ),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()
