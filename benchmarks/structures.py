"""The cost of grids and trees, behind the tables in docs/structures.md.

python benchmarks/structures.py --out benchmarks/results/structures.json    measure; about three minutes
python benchmarks/structures.py --quick --out FILE                          the same with small sizes
python benchmarks/structures.py --render                                    write the tables of docs/structures.md

A training step is forward and backward. The two sides of a ratio take turns, and the best time of each counts. Before
that, their results are compared.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import autapse
from autapse.benchmark.script import Script, measured_on, training_step
from autapse.benchmark.timing import interleaved
from autapse.data.paths import find
from autapse.layers.registry import make_layer
from autapse.results.page import fill_table, milliseconds
from autapse.sequences.tree_batch import make_trees
from autapse.tasks.trees import read_trees
from autapse.unfold.levels import scan_trees

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "structures.md"
RESULTS = ROOT / "benchmarks" / "results" / "structures.json"
GRID_BAR = 1.3  # a grid takes at most this many times as long as its four scans
TREE_BAR = 5.0  # a batch of trees is at least this many times faster than a recursion per tree
TREES, WORDS = 25, 19  # trees of a training step, and words of a typical sentence
TREE_CASES = (("tree-lstm", 150), ("n-ary-lstm", 150), ("affine", 150), ("tensor", 30))
Call = Callable[[], Tensor]


def squares(output: Call) -> Call:
    """The loss of a training step here: the sum of squares of an output."""
    return lambda: output().square().sum()


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

    mine, others = training_step(grid, squares(lambda: grid(images))), training_step(scans, squares(four))
    torch.testing.assert_close(mine(), others(), rtol=1e-4, atol=1e-3)
    ours, against = compared(mine, others, quick)
    return {"what": "grid", "cell": cell, "size": units, "bar": GRID_BAR} | {
        "seconds": ours,
        "against": against,
        "ratio": round(ours / against, 3),
    }


def some_trees(quick: bool) -> Any:
    """Parsed sentences of the Stanford Sentiment Treebank if it is here, otherwise random binary trees as large."""
    folder = None if quick else find("sst")
    if folder is not None:
        return read_trees(folder / "train.txt")[0].take(range(TREES))
    draw = random.Random(0)
    return autapse.Trees.of_nested([_random_tree(3 if quick else WORDS, draw) for _ in range(3 if quick else TREES)])


def _random_tree(words: int, draw: random.Random) -> Any:
    if words == 1:
        return "w"
    left = draw.randrange(1, words)
    return _random_tree(left, draw), _random_tree(words - left, draw)


def measure_trees(cell: str, units: int, quick: bool) -> dict[str, Any]:
    """A batch of trees level by level against a recursion for each tree in plain PyTorch, node by node.

    The products with the inputs of all nodes are one product on both sides.
    """
    trees = some_trees(quick)
    layer: Any = autapse.Tree(cell, units, units)
    x = torch.randn(len(trees.words), units)

    def recursion() -> Tensor:
        own = layer.cells[0]
        return scan_trees(own, own.drive(x), make_trees(trees.flat_parents))[0]

    mine = training_step(layer, squares(lambda: layer(x, trees.flat_parents)[0]))
    theirs = training_step(layer, squares(recursion))
    torch.testing.assert_close(mine(), theirs(), rtol=1e-4, atol=1e-3)
    ours, against = compared(mine, theirs, quick)
    return {"what": f"{len(trees)} trees", "cell": cell, "size": units, "bar": TREE_BAR} | {
        "seconds": ours,
        "against": against,
        "ratio": round(against / ours, 3),
    }


def _twin(key: str, ending: str) -> str:
    """The name of a parameter of a layer in the layer that reads both ways."""
    if key.startswith("cells."):
        return key.replace("cells.l0.", f"cells.l0{ending}.")
    return f"{key}{ending}"


def measure(quick: bool) -> dict[str, Any]:
    """All ratios."""
    torch.manual_seed(0)
    cells, sizes = (("gru",), (4,)) if quick else (("gru", "lstm", "rin"), (32, 64))
    rows = [measure_grid(cell, size, quick) for cell in cells for size in sizes]
    trees = (("tree-lstm", 4),) if quick else TREE_CASES
    return {"rows": rows + [measure_trees(cell, size, quick) for cell, size in trees]}


def render(page: str, results: dict[str, Any]) -> str:
    """A page with new text between its markers."""
    rows = []
    for row in results["rows"]:
        times = milliseconds(row["seconds"], row["against"])
        faster = row["what"] != "grid"
        said = f"{row['ratio']:.1f}× faster" if faster else f"{row['ratio']:.2f}× the time"
        bar = f"at {'least' if faster else 'most'} {row['bar']:g}×"
        rows.append([row["what"], row["cell"], row["size"], *times, said, bar])
    heads = ["what", "cell", "units", "time", "four scans, or a recursion", "ratio", "bar"]
    return fill_table(page, measured_on(results), heads, rows)


def said(results: dict[str, Any]) -> list[str]:
    """One line per ratio."""
    return [
        f"{row['what']:25} {row['cell']:12} {row['size']:4}  {row['ratio']:.2f}× (bar {row['bar']:g}×)"
        for row in results["rows"]
    ]


SCRIPT = Script("python benchmarks/structures.py", __doc__, PAGE, RESULTS, measure, render, said)

if __name__ == "__main__":
    sys.exit(SCRIPT.main(sys.argv[1:]))
