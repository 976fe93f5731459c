"""The way of the weights in training: how far they are from the final ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autapse import checks
from autapse.diagnostics import arguments


@dataclass(frozen=True, eq=False)
class WeightDistance:
    """Distances of weights to the last ones, from `weight_distance`, over E records."""

    distance: np.ndarray  # [E], the Euclidean distance of all weights together
    by_name: dict[str, np.ndarray]  # [E], that of each tensor
    norm: float  # of the last weights

    @property
    def step(self) -> np.ndarray:
        """The change of the distance from one record to the next, [E − 1]; a network that settles has small ones."""
        return np.diff(self.distance)


class WeightRecorder:
    """Keeps copies of the trained weights of a module, for `weight_distance`.

    Args:
        module: the module. Call `note()` after each epoch.

    >>> layer = autapse.GRU(2, 3)
    >>> recorder = WeightRecorder(layer)
    >>> recorder.note()
    >>> _ = layer.weight_hh_l0.data.add_(1)
    >>> recorder.note()
    >>> weight_distance(recorder.records).distance.round(4).tolist()
    [5.1962, 0.0]
    """

    def __init__(self, module: nn.Module) -> None:
        arguments.module("module", module)
        self.module = module
        self.records: list[dict[str, Tensor]] = []

    @torch.no_grad()
    def note(self) -> None:
        """Add a copy of the present weights."""
        self.records.append({name: p.detach().cpu().clone() for name, p in self.module.named_parameters()})


def weight_distance(records: Sequence[Mapping[str, Tensor]]) -> WeightDistance:
    """The Euclidean distance of weights to the last ones, per record (ERNN paper, Fig. 3a).

    Args:
        records: weights by name, in the order of training: state dicts, tensors of checkpoints, or the records of a
            `WeightRecorder`. All have the same names and shapes.

    Returns:
        A `WeightDistance`. Time: one pass over the weights.

    >>> first, last = {"w": torch.tensor([0.0, 0.0])}, {"w": torch.tensor([3.0, 4.0])}
    >>> weight_distance([first, last]).distance.tolist()
    [5.0, 0.0]
    """
    if not isinstance(records, Sequence) or not records or not all(map(_is_record, records)):
        remedy = "Pass state dicts, or the records of a WeightRecorder."
        checks.fail("records", "have at least one record: tensors by name", type(records).__name__, remedy)
    last = {name: value.double() for name, value in records[-1].items() if value.is_floating_point()}
    by_name = {name: np.array([_distance(record, name, value) for record in records]) for name, value in last.items()}
    total = np.sqrt(sum(np.square(values) for values in by_name.values()))
    norm = float(np.sqrt(sum(float(value.square().sum()) for value in last.values())))
    return WeightDistance(np.asarray(total), by_name, norm)


def _is_record(record: Any) -> bool:
    return isinstance(record, Mapping) and all(isinstance(value, Tensor) for value in record.values())


def _distance(record: Mapping[str, Tensor], name: str, last: Tensor) -> float:
    if name not in record or record[name].shape != last.shape:
        got = tuple(record[name].shape) if name in record else "nothing"
        checks.fail("records", f"have {name} with shape {tuple(last.shape)} in every record", got)
    return float((record[name].double() - last).norm())
