"""torch.compile of a model that contains a layer: the same numbers, and no compilation per sequence length."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import autapse
from networks import VARIANTS, D, H, Network, every_layer
from tolerance import close

# torch hides this one from users while it looks at an intermediate result; as an error it would stop the compiler
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf Tensor")

B = 3
LENGTHS = range(5, 9)
GRAPHS = 2  # before the layer and after it; each once more when the second length makes shapes dynamic


class Model(nn.Module):
    """What people write: something before, the layer, a head on its last output."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.encode = nn.Linear(2, D, dtype=torch.float64)
        self.layer = layer
        self.head = nn.Linear(layer.output_size, 1, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.layer(torch.tanh(self.encode(x)))
        return self.head(output[-1]).squeeze(-1)


class Counting:
    """A backend that counts the graphs it is given and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def outcome(model: Any, x: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    y = model(x)
    return [y, *torch.autograd.grad(y.square().sum(), parameters, allow_unused=True, materialize_grads=True)]


@every_layer
def test_same_numbers_and_bounded_compilation(network: Network) -> None:
    model = Model(network.layer(num_layers=2, bidirectional=True))
    plain = copy.deepcopy(model)
    counting = Counting()
    compiled = torch.compile(model, backend=counting)
    after = []
    for steps in LENGTHS:
        x = torch.randn(steps, B, 2, dtype=torch.float64)
        close(outcome(compiled, x, list(model.parameters())), outcome(plain, x, list(plain.parameters())))
        after.append(counting.graphs)
    assert after[0] == GRAPHS, "something should have been compiled, and not every step of the loop"
    assert after[-1] == after[1] <= 2 * GRAPHS


@pytest.mark.parametrize("steps", [5, 200])
def test_graphs_do_not_grow_with_the_sequence(steps: int) -> None:
    counting = Counting()
    sizes: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        sizes.append(len(graph.graph.nodes))
        return counting(graph, inputs)

    model = Model(autapse.RIN(D, H, dtype=torch.float64))
    torch.compile(model, backend=backend)(torch.randn(steps, B, 2, dtype=torch.float64))
    assert counting.graphs == GRAPHS
    assert sum(sizes) < 40


@pytest.mark.parametrize("network", [n for n in VARIANTS if n.options], ids=str)
def test_variants(network: Network) -> None:
    model = Model(network.layer())
    plain = copy.deepcopy(model)
    compiled = torch.compile(model, backend="eager")
    for steps in (5, 6):
        x = torch.randn(steps, B, 2, dtype=torch.float64)
        close(outcome(compiled, x, list(model.parameters())), outcome(plain, x, list(plain.parameters())))


@pytest.mark.parametrize("name", ["GRU", "RIN"])
def test_through_autograds_own_compilation(name: str) -> None:
    model = Model(getattr(autapse, name)(D, H, dtype=torch.float64))
    plain = copy.deepcopy(model)
    compiled = torch.compile(model, backend="aot_eager")
    for steps in (5, 6, 7):
        x = torch.randn(steps, B, 2, dtype=torch.float64)
        close(outcome(compiled, x, list(model.parameters())), outcome(plain, x, list(plain.parameters())))


def test_training_a_compiled_model() -> None:
    """Optimizer steps change weights in place; compiled and eager must stay together."""
    model = Model(autapse.LSTM(D, H, dtype=torch.float64))
    plain = copy.deepcopy(model)
    compiled = torch.compile(model, backend="eager")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, plain)]
    for steps in (5, 6, 7, 8):
        x = torch.randn(steps, B, 2, dtype=torch.float64)
        for run, optimizer in zip((compiled, plain), optimizers, strict=True):
            optimizer.zero_grad()
            run(x).square().mean().backward()
            optimizer.step()
    close(list(model.parameters()), list(plain.parameters()))


def test_lengths_inside_a_compiled_model() -> None:
    class Ragged(Model):
        def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:  # type: ignore[override]
            _, h_n = self.layer(torch.tanh(self.encode(x)), lengths=lengths)
            return self.head(h_n[-1]).squeeze(-1)

    counting = Counting()
    model = Ragged(autapse.GRU(D, H, dtype=torch.float64))
    compiled = torch.compile(model, backend=counting)
    after = []
    for steps in LENGTHS:
        x, lengths = torch.randn(steps, B, 2, dtype=torch.float64), torch.tensor([steps, 0, steps - 2])
        close(compiled(x, lengths), model(x, lengths))
        after.append(counting.graphs)
    assert after[-1] == after[1] <= 2 * GRAPHS
