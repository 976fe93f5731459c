"""The time of a training step, compared with bidirectional GRUs of as many parameters, on the same batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from benchmarks.implicit.counts import walk_batches
from benchmarks.implicit.settings import DIMENSIONS, RTOL, ImplicitSettings
from benchmarks.implicit.weights import Trained
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from autapse import GRU
from autapse.benchmark.timing import timed
from autapse.layers import ImplicitGRU, Recurrent
from autapse.solve import Paper, Solver, Tolerance
from autapse.training.feeds import Batch

Layer = Callable[[Batch], Tensor]  # batch -> [B, T, F]
Module = nn.GRU | Recurrent


def matched_width(parameters: int) -> int:
    """The width of each direction of a GRU that has as many parameters."""
    return min(range(1, 2000), key=lambda h: abs(6 * h * h + 6 * h * DIMENSIONS + 12 * h - parameters))


def measure_steps(settings: ImplicitSettings, models: dict[int, Trained]) -> list[dict[str, Any]]:
    """A row for each width: seconds of each network, and ratios to the faster of torch.nn's two variants."""
    batches = walk_batches(settings)
    return [_measure(settings, hidden, trained, batches) for hidden, trained in models.items()]


def _measure(settings: ImplicitSettings, hidden: int, trained: Trained, batches: list[Batch]) -> dict[str, Any]:
    model = trained.at(settings.phases[-1])
    candidates = _candidates(model.layer, hidden)
    calls = {name: _step(layer, module) for name, (layer, module) in candidates.items()}
    _check(candidates["implicit, 1e-4"][1], batches[0])
    best = {name: [float("inf")] * len(batches) for name in calls}
    for _ in range(settings.rounds):
        for n, batch in enumerate(batches):
            for name, call in calls.items():
                if name == "implicit, paper" and best[name][n] < float("inf"):
                    continue  # takes seconds: once is enough
                best[name][n] = min(best[name][n], timed(partial(call, batch)))
    seconds = {name: sum(times) / len(times) for name, times in best.items()}
    torch_best = min(seconds["torch.nn, padded"], seconds["torch.nn, packed"])
    row = {
        "hidden": hidden,
        "width_each_way": matched_width(_parameters(model.layer)),
        "parameters": {name: _parameters(module) for name, (_, module) in candidates.items()},
        "tokens_per_batch": float(sum(int(b.lengths.sum()) for b in batches if b.lengths is not None)) / len(batches),
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
        "ratio_to_torch": {name: round(value / torch_best, 3) for name, value in seconds.items()},
    }
    print(row, flush=True)
    return row


def _candidates(trained: nn.Module, hidden: int) -> dict[str, tuple[Layer, Module]]:
    width = matched_width(_parameters(trained))
    torch.manual_seed(0)
    ours = GRU(DIMENSIONS, width, batch_first=True, bidirectional=True)
    theirs = nn.GRU(DIMENSIONS, width, batch_first=True, bidirectional=True)
    tight, paper = Tolerance(training=RTOL, adjoint=RTOL), Paper()
    candidates: dict[str, tuple[Layer, Module]] = {
        "torch.nn, padded": (lambda batch: theirs(batch.inputs)[0], theirs),
        "torch.nn, packed": (lambda batch: _packed(theirs, batch), theirs),
        "ours, bidirectional GRU": (lambda batch: ours(batch.inputs, lengths=batch.lengths)[0], ours),
    }
    for name, tolerance, solver in (
        ("implicit, default", Tolerance(), None),
        ("implicit, 1e-4", tight, None),
        ("implicit, paper", tight, paper),
    ):
        candidates[name] = _implicit(trained, hidden, tolerance, solver)
    return candidates


def _implicit(trained: nn.Module, hidden: int, tolerance: Tolerance, solver: Solver | None) -> tuple[Layer, Module]:
    layer = ImplicitGRU(DIMENSIONS, hidden, batch_first=True, tolerance=tolerance, solver=solver)
    layer.load_state_dict(trained.state_dict())
    return lambda batch: layer(batch.inputs, lengths=batch.lengths)[0], layer


def _packed(module: nn.GRU, batch: Batch) -> Tensor:
    assert batch.lengths is not None
    packed = pack_padded_sequence(batch.inputs, batch.lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(module(packed)[0], batch_first=True)[0]


def _step(layer: Layer, module: Module) -> Callable[[Batch], None]:
    head = nn.Linear(_width(module), 2)

    def step(batch: Batch) -> None:
        module.zero_grad()
        logits = head(layer(batch)).flatten(0, 1)
        nn.functional.cross_entropy(logits, batch.targets.flatten()).backward()

    return step


def _width(module: Module) -> int:
    return module.output_size if isinstance(module, Recurrent) else 2 * module.hidden_size


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@torch.no_grad()
def _check(layer: nn.Module, batch: Batch) -> None:
    """Check, before anything is timed, that the states satisfy their equation at every position."""
    assert isinstance(layer, ImplicitGRU)
    output, _ = layer(batch.inputs, lengths=batch.lengths)
    cell = layer.cells["l0"]
    rule, drive = cell.prepare(), cell.drive(batch.inputs)
    assert batch.lengths is not None
    for b, n in enumerate(batch.lengths.tolist()):
        h = output[b, :n]
        edge = torch.zeros_like(h[:1])
        right = rule.evaluate(drive[b, :n], (torch.cat([edge, h[:-1]]), torch.cat([h[1:], edge])))
        residual = float((right - h).norm() / h.norm())
        if residual > 1.01 * RTOL:
            raise RuntimeError(f"Sequence {b} has the residual {residual:.2g}, above {RTOL:g}: nothing was timed.")
