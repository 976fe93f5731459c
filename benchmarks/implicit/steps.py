"""The time of a training step against bidirectional GRUs of as many parameters, in turns, on the same batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from settings import BATCH, DIMENSIONS, RTOL, Settings
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from weights import Trained, walk

from autapse import GRU
from autapse.benchmark.timing import timed
from autapse.layers import ImplicitGRU
from autapse.solve import Paper, Solver, Tolerance
from autapse.training.feeds import Tensors

Layer = Callable[[Tensors], Tensor]  # batch -> [B, T, F]


def matched_width(parameters: int) -> int:
    """The width of each direction of a GRU that has as many parameters."""
    return min(range(1, 2000), key=lambda h: abs(6 * h * h + 6 * h * DIMENSIONS + 12 * h - parameters))


def measure_steps(settings: Settings, models: dict[int, Trained]) -> list[dict[str, Any]]:
    """A row for each width: seconds of each contender, and ratios to the faster of torch.nn's two ways."""
    data = Tensors.of(walk(settings, test_size=BATCH * settings.batches).split("test", settings.seed), "cpu")
    batches = [data.take(list(range(n, n + BATCH))) for n in range(0, len(data), BATCH)]
    return [_measure(settings, hidden, trained, batches) for hidden, trained in models.items()]


def _measure(settings: Settings, hidden: int, trained: Trained, batches: list[Tensors]) -> dict[str, Any]:
    model = trained.at(settings.phases[-1])
    contenders = _contenders(model.layer, hidden)
    calls = {name: _step(layer, module) for name, (layer, module) in contenders.items()}
    _check(contenders["implicit, 1e-4"][1], batches[0])
    best = {name: [float("inf")] * len(batches) for name in calls}
    for _ in range(settings.rounds):
        for n, batch in enumerate(batches):
            for name, call in calls.items():
                if name == "implicit, paper" and best[name][n] < float("inf"):
                    continue  # seconds each: once is enough
                best[name][n] = min(best[name][n], timed(lambda call=call, batch=batch: call(batch)))  # type: ignore[misc]
    seconds = {name: sum(times) / len(times) for name, times in best.items()}
    torch_best = min(seconds["torch.nn, padded"], seconds["torch.nn, packed"])
    row = {
        "hidden": hidden,
        "width_each_way": matched_width(_parameters(model.layer)),
        "parameters": {name: _parameters(module) for name, (_, module) in contenders.items()},
        "tokens_per_batch": float(sum(int(b.lengths.sum()) for b in batches if b.lengths is not None)) / len(batches),
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
        "ratio_to_torch": {name: round(value / torch_best, 3) for name, value in seconds.items()},
    }
    print(row, flush=True)
    return row


def _contenders(trained: nn.Module, hidden: int) -> dict[str, tuple[Layer, nn.Module]]:
    width = matched_width(_parameters(trained))
    torch.manual_seed(0)
    ours = GRU(DIMENSIONS, width, batch_first=True, bidirectional=True)
    theirs = nn.GRU(DIMENSIONS, width, batch_first=True, bidirectional=True)
    tight, paper = Tolerance(training=RTOL, adjoint=RTOL), Paper()
    found: dict[str, tuple[Layer, nn.Module]] = {
        "torch.nn, padded": (lambda batch: theirs(batch.inputs)[0], theirs),
        "torch.nn, packed": (lambda batch: _packed(theirs, batch), theirs),
        "ours, bidirectional GRU": (lambda batch: ours(batch.inputs, lengths=batch.lengths)[0], ours),
    }
    for name, tolerance, solver in (
        ("implicit, default", Tolerance(), None),
        ("implicit, 1e-4", tight, None),
        ("implicit, paper", tight, paper),
    ):
        found[name] = _implicit(trained, hidden, tolerance, solver)
    return found


def _implicit(trained: nn.Module, hidden: int, tolerance: Tolerance, solver: Solver | None) -> tuple[Layer, nn.Module]:
    layer = ImplicitGRU(DIMENSIONS, hidden, batch_first=True, tolerance=tolerance, solver=solver)
    layer.load_state_dict(trained.state_dict())
    return lambda batch: layer(batch.inputs, lengths=batch.lengths)[0], layer


def _packed(module: nn.GRU, batch: Tensors) -> Tensor:
    assert batch.lengths is not None
    packed = pack_padded_sequence(batch.inputs, batch.lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(module(packed)[0], batch_first=True)[0]


def _step(layer: Layer, module: nn.Module) -> Callable[[Tensors], None]:
    head = nn.Linear(_width(module), 2)

    def step(batch: Tensors) -> None:
        module.zero_grad()
        logits = head(layer(batch)).flatten(0, 1)
        nn.functional.cross_entropy(logits, batch.targets.flatten()).backward()

    return step


def _width(module: nn.Module) -> int:
    return module.hidden_size * (2 if module.bidirectional else 1)  # type: ignore[operator,return-value]


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@torch.no_grad()
def _check(layer: nn.Module, batch: Tensors) -> None:
    """Before any time is taken: the states satisfy their equation, position by position."""
    assert isinstance(layer, ImplicitGRU)
    output, _ = layer(batch.inputs, lengths=batch.lengths)
    cell = layer.cells["l0"]
    rule, drive = cell.prepare(), cell.drive(batch.inputs)
    assert batch.lengths is not None
    for b, n in enumerate(batch.lengths.tolist()):
        h = output[b, :n]
        edge = torch.zeros_like(h[:1])
        found = rule.evaluate(drive[b, :n], (torch.cat([edge, h[:-1]]), torch.cat([h[1:], edge])))
        residual = float((found - h).norm() / h.norm())
        if residual > 1.01 * RTOL:
            raise RuntimeError(f"Sequence {b} has the residual {residual:.2g}, above {RTOL:g}: nothing was timed.")
