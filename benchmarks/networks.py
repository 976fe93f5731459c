"""The cost of gated and complex networks against the GRU, behind the table in docs/cells/unitary.md.

python benchmarks/networks.py --out benchmarks/results/networks.json    measure; about two minutes
python benchmarks/networks.py --quick --out FILE                        the same with small sizes
python benchmarks/networks.py --render                                  write the table of the page

A training step is forward and backward. A network is set against the GRU "of as many products": the GRU's time times
the network's multiplications of a step divided by the GRU's. The two sides take turns, and the best time of each
counts. Before that, values and gradients of the kernels are compared with those of the plain PyTorch steps.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import autapse
from autapse.benchmark.script import Script, measured_on, training_step
from autapse.benchmark.timing import interleaved
from autapse.layers.registry import make_layer
from autapse.results.page import fill_table, milliseconds
from autapse.unfold import scan_fused, scan_reference

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cells" / "unitary.md"
RESULTS = ROOT / "benchmarks" / "results" / "networks.json"
FEATURES = 8
BAR = 2.0


class Case(NamedTuple):
    """A network that runs on a kernel, and the n × n products of a step, in real multiplications; a GRU has 3."""

    spec: str
    products: int


CASES = (
    Case("gru:gates=shared-reset", 3),
    Case("lstm:peepholes=True", 4),
    Case("intersection", 4),
    Case("dilated:cell=gru:dilation=4", 3),
    Case("cfn", 2),
    Case("goru", 3),
    Case("goru:capacity=4", 3),
    Case("orthogonalrnn:field=complex", 4),  # a complex product is four real ones
    Case("orthogonalrnn:field=complex:parametrization=rotations:capacity=4", 4),
    Case("kru", 4),
    Case("kru:field=real", 1),
)


def settings(quick: bool) -> dict[str, Any]:
    """What is measured."""
    if quick:
        return {"steps": 6, "batch": 3, "sizes": [8], "features": FEATURES}
    return {"steps": 200, "batch": 64, "sizes": [64, 128], "features": FEATURES}


def check_equal(layer: Any, x: Tensor) -> None:
    """Values and gradients of the kernels against the steps in plain PyTorch."""
    cell, results = layer.cells["l0"], []
    for scan in (scan_fused, scan_reference):
        state = cell.initial_state(x.shape[1], x)
        (h, *_), _ = scan(cell, x.flatten(0, 1), state, [x.shape[1]] * len(x))
        results.append([h, *torch.autograd.grad(h.sum(), list(cell.parameters()))])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.detach().abs().max()))


def measured(case: Case, size: int, chosen: dict[str, Any], quick: bool) -> dict[str, Any]:
    """How many times longer a training step takes than that of the GRU of as many products."""
    x = torch.randn(chosen["steps"], chosen["batch"], FEATURES)
    layer = make_layer(case.spec, FEATURES, size)
    check_equal(layer, x[:20])
    pair: list[Any] = [layer, autapse.GRU(FEATURES, size)]
    ours, theirs = (training_step(one, lambda one=one: one(x)[0].sum()) for one in pair)  # type: ignore[misc]
    one, two = interleaved(ours, theirs, *((2, 0.1) if quick else (30, 4.0)))
    scaled = two.seconds * case.products / 3
    row = {"network": case.spec, "size": size, "products": case.products, "seconds": one.seconds, "gru": two.seconds}
    return row | {"ratio": round(one.seconds / scaled, 3), "bar": BAR}


def measure(quick: bool) -> dict[str, Any]:
    """All ratios."""
    torch.manual_seed(0)
    chosen = settings(quick)
    rows = [measured(case, size, chosen, quick) for size in chosen["sizes"] for case in CASES]
    return {"settings": chosen, "rows": rows}


def render(page: str, results: dict[str, Any]) -> str:
    """A page with new text between its markers."""
    chosen = results["settings"]
    rows = []
    for row in results["rows"]:
        times = milliseconds(row["gru"], row["seconds"])
        rows.append([f"`{row['network']}`", row["size"], row["products"], *times, f"{row['ratio']:.2f}×"])
    text = (
        f"A training step on {chosen['batch']} sequences of {chosen['steps']} steps, {chosen['features']} features. "
        "*Products* are the real $n \\times n$ products of a step; the GRU has 3, and the *ratio* is to a GRU of as "
        f"many products. The bar is {BAR:g}×. {measured_on(results)}"
    )
    heads = ["network", "units", "products", "time of GRU", "time", "ratio"]
    return fill_table(page, text, heads, rows)


def said(results: dict[str, Any]) -> list[str]:
    """One line per ratio."""
    return [
        f"{row['network']:66} {row['size']:4}  {row['ratio']:.2f}× a GRU of as many products (bar {row['bar']:g})"
        for row in results["rows"]
    ]


SCRIPT = Script("python benchmarks/networks.py", __doc__, PAGE, RESULTS, measure, render, said, threads=1)

if __name__ == "__main__":
    sys.exit(SCRIPT.main(sys.argv[1:]))
