"""Real-time recurrent learning: its gradients are those of back-propagation through time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import autapse
from autapse import checks
from autapse.training.online import OnlineLearner
from networks import BESIDE_MEMORY, COMPOSED_VARIANTS, IN_PARTS, STEPPED_VARIANTS, VARIANTS, Network

D, H, T = 2, 4, 6


def head_of(layer: Any) -> nn.Linear:
    return nn.Linear(layer.output_size, 1, dtype=torch.float64)


def gradients_of(layer: Any, head: nn.Module) -> list[torch.Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in [*layer.parameters(), *head.parameters()]]


def compare(layer: Any) -> None:
    """The sum of all gradients of a stream, and the predictions, against one backward pass over all steps."""
    head, x, y = head_of(layer), torch.randn(T, D, dtype=torch.float64), torch.randn(T, 1, dtype=torch.float64)
    learner = OnlineLearner(layer, head)
    predictions = torch.stack([learner.observe(x[t], y[t]).prediction for t in range(T)])
    found = gradients_of(layer, head)
    layer.zero_grad()
    head.zero_grad()
    output = head(layer(x)[0])
    (output - y).square().sum().backward()
    torch.testing.assert_close(predictions, output.detach(), rtol=1e-9, atol=1e-11)
    for ours, theirs in zip(found, gradients_of(layer, head), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "network", [*VARIANTS, *COMPOSED_VARIANTS, *IN_PARTS, *STEPPED_VARIANTS, *BESIDE_MEMORY], ids=str
)
def test_the_sum_of_the_gradients_is_that_of_back_propagation(network: Network) -> None:
    compare(network.layer(D, H))


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM", "ERNN"])
def test_several_layers(name: str) -> None:
    torch.manual_seed(0)
    compare(getattr(autapse, name)(D, H, num_layers=2, dtype=torch.float64))
    compare(getattr(autapse, name)(D, [3, 5], dtype=torch.float64))


def test_the_influence_is_the_derivative_of_the_state() -> None:
    """Against central differences in each weight."""
    torch.manual_seed(0)
    layer, x = autapse.GRU(D, 3, dtype=torch.float64), torch.randn(T, D, dtype=torch.float64)
    learner = OnlineLearner(layer, head_of(layer))
    for row in x:
        learner.observe(row, torch.zeros(1, dtype=torch.float64))
    columns = []
    with torch.no_grad():
        for weight in layer.parameters():
            for n in range(weight.numel()):
                ends = []
                for sign in (1, -2):
                    weight.view(-1)[n] += sign * 1e-6
                    ends.append(layer(x)[1].flatten())
                weight.view(-1)[n] += 1e-6
                columns.append((ends[0] - ends[1]) / 2e-6)
    torch.testing.assert_close(learner.influence, torch.stack(columns, dim=1), rtol=1e-6, atol=1e-8)


def test_each_step_updates() -> None:
    """With SGD, the first step is −rate·gradient, and a repeated pattern is learned."""
    torch.manual_seed(0)
    layer = autapse.RNN(1, 8)
    head = nn.Linear(8, 1)
    weights = [*layer.parameters(), *head.parameters()]
    learner = OnlineLearner(layer, head, optimizer=torch.optim.Adam(weights, lr=0.01), clip_norm=1.0)
    pattern = torch.tensor([0.0, 1.0, 0.0, -1.0])  # the next value needs the one before
    losses = [learner.observe(pattern[t % 4].view(1), pattern[(t + 1) % 4].view(1)).loss for t in range(600)]
    assert sum(losses[-40:]) < 0.02 * sum(losses[:40])
    assert all(p.grad is None for p in weights)


def test_prediction_does_not_learn() -> None:
    layer = autapse.RNN(1, 4)
    head, before = nn.Linear(4, 1), layer.weight_hh_l0.detach().clone()
    learner = OnlineLearner(layer, head, optimizer=torch.optim.SGD(layer.parameters(), lr=1.0))
    x = torch.randn(5, 1)
    predictions = torch.stack([learner.predict(row) for row in x])
    torch.testing.assert_close(predictions, head(layer(x)[0]).detach())
    assert torch.equal(layer.weight_hh_l0, before)


def test_a_learner_continues_to_the_bit() -> None:
    def learner() -> OnlineLearner:
        torch.manual_seed(0)
        layer, head = autapse.LSTM(1, 4), nn.Linear(4, 1)
        return OnlineLearner(layer, head)

    x = torch.randn(10, 1)
    whole, first, second = learner(), learner(), learner()
    for row in x:
        whole.observe(row, row)
    for row in x[:4]:
        first.observe(row, row)
    second.load(first.tensors())
    for row in x[4:]:
        second.observe(row, row)
    assert all(torch.equal(a, b) for a, b in zip(whole.tensors().values(), second.tensors().values(), strict=True))
    with pytest.raises(checks.InputError, match="influence must be"):
        second.load({**first.tensors(), "influence": torch.zeros(1)})


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (lambda: autapse.GRU(1, 4, bidirectional=True), "in one direction"),
        (lambda: autapse.ImplicitGRU(1, 4), "in one direction"),
        (lambda: autapse.EquilibriumTanh(1, 4), "explicit functions"),
        (lambda: autapse.Feedforward(1, 4), "have a state"),
        (lambda: autapse.GRU(1, 4, num_layers=2, dropout=0.1), "dropout must be 0"),
        (lambda: autapse.LSTM(1, 256), "influence matrix of at most"),
        (lambda: nn.GRU(1, 4), "recurrent layer of autapse"),
    ],
)
def test_what_is_refused(layer: Any, words: str) -> None:
    with pytest.raises(checks.InputError, match=words) as error:
        OnlineLearner(layer(), nn.Linear(4, 1))
    assert "\n" not in str(error.value)
