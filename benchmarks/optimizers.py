"""The cost of a curvature product of the hessian-free optimizer, behind the table in docs/optimizers.md.

python benchmarks/optimizers.py --out benchmarks/results/optimizers.json    measure; about two minutes
python benchmarks/optimizers.py --quick --out FILE                          the same with small sizes
python benchmarks/optimizers.py --render                                    write the table of the page

A product by the Gauss-Newton matrix is a forward derivative and a backward pass; a gradient is a forward and a backward
pass on the same batch. The two take turns, and the best time of each counts. Before that, the products are compared
with finite differences of gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import autapse
from autapse.benchmark.script import Script, measured_on, training_step
from autapse.benchmark.timing import interleaved
from autapse.results.page import fill_table, milliseconds
from autapse.training.curvature import LocalProblem

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "optimizers.md"
RESULTS = ROOT / "benchmarks" / "results" / "optimizers.json"
FEATURES, OUTPUTS = 2, 3
BAR = 3.0
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "RNN": autapse.RNN,
    "LeakyRNN": autapse.LeakyRNN,
    "GRU": autapse.GRU,
    "LSTM": autapse.LSTM,
}


class Sizes:
    """What is measured."""

    def __init__(self, quick: bool) -> None:
        self.batch, self.hidden = (5, 8) if quick else (200, 100)
        self.lengths = (6,) if quick else (50, 100, 200)
        self.repeats, self.seconds = (2, 0.1) if quick else (20, 5.0)


class Network(nn.Module):
    """A layer and a linear map of its last state."""

    def __init__(self, layer: nn.Module, hidden: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(hidden, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:  # [T, B, D] -> [B, K]
        return self.head(self.layer(x)[0][-1])


def problem_of(network: Network, x: Tensor, targets: Tensor) -> LocalProblem:
    """The mean squared error on a batch."""

    def evaluate(call: Callable[..., Any], _sequences: Sequence[int]) -> Any:
        return call(x), lambda output: (output - targets).square().mean()

    return LocalProblem(network, evaluate, range(x.shape[1]))


def check_equal(network: Network, x: Tensor) -> None:
    """A product against finite differences. If the targets are the outputs, the Hessian is the Gauss-Newton matrix."""
    network, x = network.double(), x.double()
    problem = problem_of(network, x, network(x).detach())
    vector = torch.randn(sum(p.numel() for p in network.parameters()), dtype=torch.float64)
    vector *= 1e-5 / vector.norm()

    def gradient(sign: float) -> Tensor:
        with torch.no_grad():
            for p, part in zip(network.parameters(), problem.split(vector), strict=True):
                p.add_(sign * part)
        loss = (network(x) - targets).square().mean()
        grads = torch.autograd.grad(loss, list(network.parameters()))
        return torch.cat([g.flatten() for g in grads])

    found = problem.linearise().product(vector)
    targets = network(x).detach()
    expected = (gradient(1.0) - gradient(-2.0)) / 2
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def measured(name: str, length: int, sizes: Sizes) -> dict[str, Any]:
    """How many times longer a product takes than a gradient."""
    x, targets = torch.randn(length, sizes.batch, FEATURES), torch.randn(sizes.batch, OUTPUTS)
    check_equal(Network(NETWORKS[name](FEATURES, 8), 8), x[:10, :4])
    network = Network(NETWORKS[name](FEATURES, sizes.hidden), sizes.hidden)
    matrix = problem_of(network, x, targets).linearise()
    vector = torch.randn(sum(p.numel() for p in network.parameters()), dtype=torch.float64)
    gradient = training_step(network, lambda: (network(x) - targets).square().mean())
    one, two = interleaved(lambda: matrix.product(vector), gradient, sizes.repeats, sizes.seconds)
    return {
        "network": name,
        "length": length,
        "product": one.seconds,
        "gradient": two.seconds,
        "ratio": round(one.seconds / two.seconds, 3),
        "bar": BAR,
    }


def measure(quick: bool) -> dict[str, Any]:
    """All ratios."""
    torch.manual_seed(0)
    sizes = Sizes(quick)
    rows = [measured(name, length, sizes) for name in NETWORKS for length in sizes.lengths]
    return {"settings": {"batch": sizes.batch, "hidden": sizes.hidden, "features": FEATURES}, "rows": rows}


def render(page: str, results: dict[str, Any]) -> str:
    """A page with new text between its markers."""
    settings, rows = results["settings"], []
    for row in results["rows"]:
        times = milliseconds(row["gradient"], row["product"])
        rows.append([row["network"], row["length"], *times, f"{row['ratio']:.2f}×", f"{row['bar']:g}×"])
    text = (
        f"A curvature product against a gradient on the same {settings['batch']} sequences, {settings['hidden']} "
        f"units. {measured_on(results)}"
    )
    heads = ["network", "steps", "gradient", "product", "ratio", "bar"]
    return fill_table(page, text, heads, rows)


def said(results: dict[str, Any]) -> list[str]:
    """One line per ratio."""
    return [
        f"{row['network']:9} {row['length']:4}  {row['ratio']:.2f}× (bar {row['bar']:g}×)" for row in results["rows"]
    ]


SCRIPT = Script("python benchmarks/optimizers.py", __doc__, PAGE, RESULTS, measure, render, said, threads=1)

if __name__ == "__main__":
    sys.exit(SCRIPT.main(sys.argv[1:]))
