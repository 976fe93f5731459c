"""The cost of delays and of clockwork groups, behind the table in docs/cells/time-scales.md.

python benchmarks/time_scales.py --out benchmarks/results/time_scales.json    measure; about two minutes
python benchmarks/time_scales.py --quick --out FILE                           the same with small sizes
python benchmarks/time_scales.py --render                                     write the table of the page

A training step is forward and backward. The two sides of a ratio take turns, and the best time of each counts. Before
that, values and gradients of the kernels are compared with those of the plain PyTorch steps.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import autapse
from autapse.benchmark.script import Script, measured_on, training_step
from autapse.benchmark.timing import interleaved
from autapse.results.page import fill_table, milliseconds
from autapse.unfold import scan_fused, scan_reference

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cells" / "time-scales.md"
RESULTS = ROOT / "benchmarks" / "results" / "time_scales.json"
FEATURES = 8
DELAYS = ((1, 2), (1, 5, 20), (1, 4, 16, 64))
PERIODS = (1, 2, 4, 8)
BARS = {"delays": 1.2, "clockwork": 0.6}


class Sizes:
    """What is measured."""

    def __init__(self, quick: bool) -> None:
        self.steps, self.batch = (6, 3) if quick else (200, 64)
        self.size = 8 if quick else 128  # units of the networks with delays
        self.clockwork_sizes: tuple[int, ...] = (8,) if quick else (128, 256, 512)
        self.repeats, self.seconds = (2, 0.1) if quick else (30, 5.0)


def check_equal(layer: Any, x: Tensor) -> None:
    """Values and gradients of the kernels against the steps in plain PyTorch."""
    cell, results = layer.cells["l0"], []
    for scan in (scan_fused, scan_reference):
        state = cell.initial_state(x.shape[1], x)
        (h, *_), _ = scan(cell, x.flatten(0, 1), state, [x.shape[1]] * len(x))
        results.append([h, *torch.autograd.grad(h.sum(), list(cell.parameters()))])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.detach().abs().max()))


def measured(what: str, layer: Any, size: int, sizes: Sizes) -> dict[str, Any]:
    """How many times longer a training step takes than that of the plain network with as many units."""
    x = torch.randn(sizes.steps, sizes.batch, FEATURES)
    check_equal(layer, x)
    plain = autapse.RNN(FEATURES, size)
    ours, theirs = (training_step(one, lambda one=one: one(x)[0].sum()) for one in (layer, plain))  # type: ignore[misc]
    one, two = interleaved(ours, theirs, sizes.repeats, sizes.seconds)
    ratio = one.seconds / two.seconds
    return {"what": what, "size": size, "seconds": one.seconds, "against": two.seconds, "ratio": round(ratio, 3)}


def measure_delays(delays: tuple[int, ...], size: int, sizes: Sizes) -> dict[str, Any]:
    """`cost` is what one more matrix product adds, in units of the whole plain network."""
    row = measured(f"delays {', '.join(map(str, delays))}", autapse.Delayed(FEATURES, size, delays=delays), size, sizes)
    return row | {"cost": round((row["ratio"] - 1) / (len(delays) - 1), 3), "bar": BARS["delays"]}


def measure_clockwork(size: int, sizes: Sizes) -> dict[str, Any]:
    layer = autapse.Clockwork(FEATURES, size, periods=PERIODS)
    row = measured(f"periods {', '.join(map(str, PERIODS))}", layer, size, sizes)
    return row | {"cost": row["ratio"], "bar": BARS["clockwork"]}


def measure(quick: bool) -> dict[str, Any]:
    """All ratios."""
    torch.manual_seed(0)
    sizes = Sizes(quick)
    rows = [measure_delays(delays, sizes.size, sizes) for delays in DELAYS]
    rows += [measure_clockwork(size, sizes) for size in sizes.clockwork_sizes]
    return {"settings": {"steps": sizes.steps, "batch": sizes.batch, "features": FEATURES}, "rows": rows}


def render(page: str, results: dict[str, Any]) -> str:
    """A page with new text between its markers."""
    settings = results["settings"]
    rows = []
    for row in results["rows"]:
        times = milliseconds(row["against"], row["seconds"])
        rows.append([row["what"], row["size"], *times, f"{row['ratio']:.2f}×", f"{row['cost']:.2f}", f"{row['bar']:g}"])
    heads = ["network", "units", "time of RNN", "time", "ratio", "cost", "bar"]
    text = (
        f"A training step on {settings['batch']} sequences of {settings['steps']} steps, {settings['features']} "
        "features. *Cost* is what each delay but the first adds, and for clockwork groups the whole, in units of the "
        f"RNN. {measured_on(results)}"
    )
    return fill_table(page, text, heads, rows)


def said(results: dict[str, Any]) -> list[str]:
    """One line per ratio."""
    return [
        f"{row['what']:22} {row['size']:4}  {row['ratio']:.2f}×, cost {row['cost']:.2f} (bar {row['bar']:g})"
        for row in results["rows"]
    ]


SCRIPT = Script("python benchmarks/time_scales.py", __doc__, PAGE, RESULTS, measure, render, said, threads=1)

if __name__ == "__main__":
    sys.exit(SCRIPT.main(sys.argv[1:]))
