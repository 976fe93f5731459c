"""How the evaluations and the time of a solve grow with the length n, and the power of n that fits."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from benchmarks.implicit.counts import summary, with_solver
from benchmarks.implicit.settings import BATCH, ImplicitSettings
from benchmarks.implicit.weights import Trained, walk
from torch import Tensor

from autapse.benchmark.timing import turn
from autapse.layers import ImplicitGRU
from autapse.results.power_law import power_law
from autapse.solve import NotConvergedWarning, Paper, Solver, recommended
from autapse.tasks.base import dense

SOLVERS: dict[str, Solver] = {"recommended": recommended(), "paper": Paper()}


def glued(settings: ImplicitSettings, length: int) -> Tensor:  # [B, n, D]
    """Long sequences: walks of 20 to 40 steps joined together, so that each step looks like one in training."""
    data = walk(settings, test_size=40 * BATCH * (length // 20 + 1)).split("test", settings.seed + 1)
    assert data.lengths is not None
    pieces = [x[:n] for x, n in zip(dense(data.inputs), data.lengths, strict=True) if n >= 20]
    share = len(pieces) // BATCH
    rows = [np.concatenate(pieces[b * share : (b + 1) * share])[:length] for b in range(BATCH)]
    return torch.from_numpy(np.stack(rows))


def measure_growth(settings: ImplicitSettings, models: dict[int, Trained]) -> dict[str, Any]:
    """A row for each width, solver and length, with trained weights; and the fitted power laws."""
    rows: list[dict[str, Any]] = []
    for hidden, trained in models.items():
        for name, solver in SOLVERS.items():
            layer = with_solver(trained.at(settings.phases[-1]), solver, hidden)
            for length in settings.lengths:
                row = {"hidden": hidden, "solver": name, "length": length}
                rows.append(row | _measure(layer, glued(settings, length), name))
                print(rows[-1], flush=True)
    return {"rows": rows, "fits": _fits(rows)}


@torch.no_grad()
def _measure(layer: ImplicitGRU, x: Tensor, name: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        repeats = 1 if name == "paper" else 5
        seconds = min(turn(lambda: layer(x)).seconds for _ in range(repeats))
    return summary(layer.reports) | {"seconds": round(seconds, 6)}


def _fits(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    fits = []
    for hidden, solver in dict.fromkeys((row["hidden"], row["solver"]) for row in rows):
        own = [row for row in rows if (row["hidden"], row["solver"]) == (hidden, solver)]
        for what in ("seconds", "evaluations"):
            fits.append({"hidden": hidden, "solver": solver, "what": what, **power(own, what)})
    return fits


def power(rows: list[dict[str, Any]], what: str) -> dict[str, float]:
    """factor·n^exponent, and its r²."""
    fit = power_law([row["length"] for row in rows], [row[what] for row in rows])
    return {"factor": fit.factor, "exponent": round(fit.exponent, 3), "r2": round(fit.r2, 4)}
