"""The cost of clipping at hidden states and of information flow, behind a table in docs/optimizers.md.

python benchmarks/information_flow.py --out benchmarks/results/information_flow.json    measure; about a minute
python benchmarks/information_flow.py --quick --out FILE                                the same with small sizes
python benchmarks/information_flow.py --render                                          write the table of the page

A training step is forward, backward and an update by Adam. The two sides of a ratio take turns, and the best time of
each counts. Before that, the gradients of the kernels are compared with those of the plain PyTorch reference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import autapse
from autapse.benchmark.script import Script, measured_on
from autapse.benchmark.timing import interleaved
from autapse.results.page import fill_table, milliseconds
from autapse.unfold import scan_fused, scan_reference

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "optimizers.md"
RESULTS = ROOT / "benchmarks" / "results" / "information_flow.json"
START, END = "<!-- cost of information flow -->", "<!-- end of the cost of information flow -->"
BAR = 1.5
SETTINGS: dict[str, dict[str, float]] = {
    "information_flow=0.1": {"information_flow": 0.1},
    "clip_hidden=1.0": {"clip_hidden": 1.0},
}
# network, units, sequences, steps, features
SIZES = (("RNN", 50, 20, 200, 2), ("RNN", 100, 64, 200, 2), ("GRU", 100, 64, 200, 2), ("LSTM", 100, 64, 200, 2))
SMALL = (("RNN", 5, 3, 6, 2), ("LSTM", 5, 3, 6, 2))


def check_equal(layer: Any, x: Tensor) -> None:
    """The gradients of the kernels, with both settings, against the steps in plain PyTorch."""
    cell, results = layer.cells["l0"], []
    for scan in (scan_fused, scan_reference):
        state, sizes = cell.initial_state(x.shape[1], x), [x.shape[1]] * len(x)
        (h, *_), _ = scan(cell, x.flatten(0, 1), state, sizes, clip=1.0, flow=0.1 / (len(x) - 1) / x.shape[1])
        results.append(torch.autograd.grad(h[-x.shape[1] :].sum(), list(cell.parameters())))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


def update(layer: Any, x: Tensor) -> Callable[[], Tensor]:
    """A training step with a loss at the end of the sequences, as in the problems of long delays."""
    optimizer = torch.optim.Adam(layer.parameters(), fused=True)

    def call() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = layer(x)[0][-1].square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return call


def measured(name: str, size: int, batch: int, steps: int, features: int, setting: str, quick: bool) -> dict[str, Any]:
    x, kind = torch.randn(steps, batch, features), getattr(autapse, name)
    check_equal(kind(features, size), x)
    ours, plain = (update(kind(features, size, **options), x) for options in (SETTINGS[setting], {}))
    one, two = interleaved(ours, plain, 2 if quick else 40, 0.1 if quick else 6.0)
    what = {"network": name, "size": size, "batch": batch, "steps": steps, "setting": setting}
    return what | {"seconds": one.seconds, "against": two.seconds, "ratio": round(one.seconds / two.seconds, 3)}


def measure(quick: bool) -> dict[str, Any]:
    """All ratios."""
    torch.manual_seed(0)
    return {"rows": [measured(*size, setting, quick) for setting in SETTINGS for size in (SMALL if quick else SIZES)]}


def render(page: str, results: dict[str, Any]) -> str:
    """A page with new text between its markers."""
    rows = [
        [
            f"`{row['setting']}`",
            row["network"],
            row["size"],
            f"{row['batch']} × {row['steps']}",
            *milliseconds(row["against"], row["seconds"]),
            f"{row['ratio']:.2f}×",
        ]
        for row in results["rows"]
    ]
    heads = ["setting", "network", "units", "sequences × steps", "plain step", "with it", "ratio"]
    text = f"{measured_on(results)} The bar is {BAR:g}×."
    return fill_table(page, text, heads, rows, START, END)


def said(results: dict[str, Any]) -> list[str]:
    """One line per ratio."""
    return [
        f"{row['setting']:22} {row['network']:5} {row['size']:4}  {row['ratio']:.2f}× (bar {BAR:g})"
        for row in results["rows"]
    ]


SCRIPT = Script("python benchmarks/information_flow.py", __doc__, PAGE, RESULTS, measure, render, said, threads=1)

if __name__ == "__main__":
    sys.exit(SCRIPT.main(sys.argv[1:]))
