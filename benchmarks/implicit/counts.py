"""Evaluations and failures of each solver, on the same weights and sequences."""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
from benchmarks.implicit.settings import BATCH, RTOL, ImplicitSettings
from benchmarks.implicit.weights import Trained, walk
from torch import Tensor

from autapse.gradient import Implicit
from autapse.layers import ImplicitGRU
from autapse.models import Tagger
from autapse.solve import (
    GMRES,
    Anderson,
    BiCGStab,
    FixedPoint,
    Newton,
    NotConvergedWarning,
    Paper,
    Solver,
    SolveReport,
    Sweeps,
    Tridiagonal,
    recommended,
)
from autapse.training.feeds import Batch, Tensors

SOLVERS: dict[str, Solver] = {
    "recommended": recommended(),
    "tridiagonal, accelerated": Tridiagonal(max_iterations=300),
    "tridiagonal, plain": Tridiagonal(window=0, max_iterations=300),
    "sweeps, symmetric": Sweeps(max_iterations=100),
    "sweeps, red-black": Sweeps(order="red-black", max_iterations=200),
    "newton, gmres": Newton(linear=GMRES(max_iterations=40), max_iterations=40),
    "newton, bicgstab": Newton(linear=BiCGStab(max_iterations=40), max_iterations=40),
    "anderson": Anderson(max_iterations=300),
    "fixed point": FixedPoint(max_iterations=300),
    "paper": Paper(),
}


def with_solver(model: Tagger, solver: Solver, hidden: int) -> ImplicitGRU:
    """The model's layer with another solver, at the tolerance of the counts."""
    layer = ImplicitGRU(model.layer.input_size, hidden, batch_first=True, solver=solver, tolerance=RTOL)
    layer.load_state_dict(model.layer.state_dict())
    return layer.eval()


def count_all(settings: ImplicitSettings, models: dict[int, Trained]) -> list[dict[str, Any]]:
    """A row for each width, number of training steps and solver."""
    batches = walk_batches(settings)
    rows = []
    for hidden, trained in models.items():
        for step in settings.phases:
            for name, solver in SOLVERS.items():
                layer = with_solver(trained.at(step), solver, hidden)
                row = {"hidden": hidden, "step": step, "solver": name, **_solve(layer, batches)}
                if name == "recommended":
                    row |= adjoint(layer, trained.at(step), batches)
                rows.append(row)
                print(row, flush=True)
    return rows


def walk_batches(settings: ImplicitSettings) -> list[Batch]:
    """The test sequences in batches."""
    data = Tensors.of(walk(settings, test_size=BATCH * settings.batches).split("test", settings.seed), "cpu")
    return [data.take(list(range(n, n + BATCH))) for n in range(0, len(data), BATCH)]


@torch.no_grad()
def _solve(layer: ImplicitGRU, batches: list[Batch]) -> dict[str, Any]:
    reports, seconds = [], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # failures are in the table
        for batch in batches:
            start = time.perf_counter()
            layer(batch.inputs, lengths=batch.lengths)
            seconds += time.perf_counter() - start
            reports.append(layer.reports[0])
    return summary(reports) | {"seconds_per_batch": round(seconds / len(batches), 5)}


def summary(reports: list[SolveReport]) -> dict[str, Any]:
    """Evaluations, iterations and failures of several batches."""
    evaluations = torch.cat([report.evaluations for report in reports])
    iterations = torch.cat([report.iterations for report in reports]).double()
    failures = sum(int((~report.converged).sum()) for report in reports)
    first = sum(report.finished_by.count("tridiagonal") for report in reports)
    return {
        **spread("evaluations", evaluations),
        "iterations": round(float(iterations.mean()), 2),
        "most_iterations": int(iterations.max()),
        "failures": failures,
        "sequences": len(evaluations),
        "finished_by_tridiagonal": first,
    }


def adjoint(layer: ImplicitGRU, model: Tagger, batches: list[Batch]) -> dict[str, Any]:
    """Products of the adjoint solve, for the gradient of the task's loss."""
    counts, failures = [], 0
    for batch in batches:
        output, _ = layer(batch.inputs, lengths=batch.lengths)
        logits = model.head(output).flatten(0, 1)
        torch.nn.functional.cross_entropy(logits, batch.targets.flatten()).backward()
        counts.append(layer.adjoint_reports[0].evaluations)
        failures += int((~layer.adjoint_reports[0].converged).sum())
    layer.zero_grad()
    return spread("adjoint", torch.cat(counts)) | {"adjoint_failures": failures, "adjoint_by": repr(Implicit().solver)}


def spread(name: str, counts: Tensor) -> dict[str, float]:
    """Mean and 95th percentile."""
    return {name: round(float(counts.mean()), 2), f"{name}_95": round(float(counts.quantile(0.95)), 2)}
