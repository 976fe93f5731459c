"""The cost of grids and trees, behind the tables in docs/structures.md.

python benchmarks/structures.py --out benchmarks/results/structures.json    measure; about three minutes
python benchmarks/structures.py --quick --out FILE                          the same with small sizes
python benchmarks/structures.py --render                                    write the tables of docs/structures.md

A training step is forward and backward. The two sides of a ratio take turns, and the best time of each counts. Before
that, their results are compared.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import autapse
from autapse import files
from autapse.benchmark.denormals import set_flushing
from autapse.benchmark.timing import interleaved
from autapse.layers.registry import make_layer
from autapse.results.machine import Origin, software
from autapse.results.page import fill_between, markdown_table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "structures.md"
RESULTS = ROOT / "benchmarks" / "results" / "structures.json"
START, END = "<!-- results -->", "<!-- end of results -->"
GRID_BAR = 1.3  # a grid takes at most this many times as long as its four scans
Call = Callable[[], Tensor]


def training_step(module: nn.Module, output: Call) -> Call:
    """Forward and backward, for the sum of squares of the output. Returns that sum."""

    def call() -> Tensor:
        for parameter in module.parameters():
            parameter.grad = None
        loss = output().square().sum()
        loss.backward()
        return loss.detach()

    return call


def compared(first: Call, second: Call, quick: bool) -> tuple[float, float]:
    """The best times of two calls that take turns."""
    one, two = interleaved(first, second, *((2, 0.1) if quick else (40, 6.0)))
    return one.seconds, two.seconds


def measure_grid(cell: str, units: int, quick: bool) -> dict[str, Any]:
    """A grid against four one-way scans of the same size: as many sequences, steps and units."""
    batch, side, channels = (2, 5, 3) if quick else (16, 28, 8)
    grid: Any = autapse.Grid(cell, channels, units)
    images = torch.randn(batch, side, side, channels)
    scans = nn.ModuleList(make_layer(cell, channels, units) for _ in range(4))
    for n, (scan, name) in enumerate(zip(scans, ("rows", "rows", "columns", "columns"), strict=True)):
        theirs: Any = grid.along[0][name].state_dict()
        ending = "_reverse" if n % 2 else ""
        scan.load_state_dict({key: theirs[_twin(key, ending)] for key in scan.state_dict()})
    steps = [images.movedim(time, 0).flatten(1, 2).contiguous() for time in (2, 1)]  # [side, batch·side, channels]
    sequences = [steps[0], steps[0].flip(0), steps[1], steps[1].flip(0)]

    def four() -> Tensor:
        return torch.stack([scan(x)[0] for scan, x in zip(scans, sequences, strict=True)])

    mine, others = training_step(grid, lambda: grid(images)), training_step(scans, four)
    torch.testing.assert_close(mine(), others(), rtol=1e-4, atol=1e-3)
    ours, against = compared(mine, others, quick)
    return {"what": "grid", "cell": cell, "size": units, "bar": GRID_BAR} | {
        "seconds": ours,
        "against": against,
        "ratio": round(ours / against, 3),
    }


def _twin(key: str, ending: str) -> str:
    """The name of a parameter of a layer in the layer that reads both ways."""
    if key.startswith("cells."):
        return key.replace("cells.l0.", f"cells.l0{ending}.")
    return f"{key}{ending}"


def measure(quick: bool, threads: int) -> dict[str, Any]:
    """All ratios, with facts about the machine."""
    kept = set_flushing(True, threads)  # before anything else: no thread may have started
    torch.manual_seed(0)
    origin = Origin.here()
    cells, sizes = (("gru",), (4,)) if quick else (("gru", "lstm", "rin"), (32, 64))
    rows = [measure_grid(cell, size, quick) for cell in cells for size in sizes]
    return {
        "hardware": origin.hardware,
        "software": software(),
        "denormals_kept": list(kept),
        "commit": origin.commit,
        "rows": rows,
    }


def render(page: str, results: dict[str, Any]) -> str:
    """A page with new text between its markers."""
    rows = []
    for row in results["rows"]:
        times = (f"{1e3 * row[name]:.1f} ms" for name in ("seconds", "against"))
        rows.append([row["what"], row["cell"], row["size"], *times, f"{row['ratio']:.2f}×", f"{row['bar']:g}×"])
    heads = ["what", "cell", "units", "time", "time of the other", "ratio", "bar"]
    machine, made_with = results["hardware"]["cpu"], results["software"]
    text = (
        f"{machine}, {made_with['threads']} threads, torch {made_with['torch']}, commit {results['commit']}, "
        f"`{results['command']}`."
    )
    return fill_between(page, START, END, f"{text}\n\n{markdown_table(heads, rows)}")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/structures.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="file for the results, as JSON")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch and of the kernels")
    parser.add_argument("--render", action="store_true", help="write the page from the stored results")
    chosen = parser.parse_args(words)
    if chosen.render:
        files.write_bytes(PAGE, render(PAGE.read_text(encoding="utf-8"), files.read_json(RESULTS)).encode())
        print(f"{PAGE.relative_to(ROOT)}: written from {RESULTS.relative_to(ROOT)}")
        return 0
    if chosen.out is None:
        parser.error("--out must name a file for the results")
    start = time.time()
    results = measure(chosen.quick, chosen.threads)
    results |= {
        "command": f"python benchmarks/structures.py {shlex.join(words)}",
        "seconds": round(time.time() - start),
    }
    files.write_json(chosen.out, results)
    for row in results["rows"]:
        print(f"{row['what']:25} {row['cell']:12} {row['size']:4}  {row['ratio']:.2f}× (bar {row['bar']:g}×)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
