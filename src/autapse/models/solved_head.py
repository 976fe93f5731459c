"""The head of a model whose other parts are fixed: it is solved from the data, not trained step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from autapse.models.base import SequenceModel
from autapse.models.model import Batches
from autapse.readouts import Logistic, Ridge
from autapse.readouts.base import LinearReadout

PENALTIES = (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)  # relative to the states
CLASS_PENALTIES = (100.0, 10.0, 1.0, 0.1, 0.01)
AT_ONCE = 1 << 24  # numbers of states in memory
MOST_ROWS = 200_000  # of logistic regression, which needs all states in memory
SOLVED = math.inf
"""What `start_from` returns: no training can improve on it."""


def is_solvable(model: SequenceModel) -> bool:
    """Whether only the head can learn, and reads the same features at every step of a training."""
    learned = {id(weight) for weight in model.parameters() if weight.requires_grad}
    alone = learned == {id(weight) for weight in model.head.parameters()}
    noisy = any(isinstance(part, nn.Dropout) and part.p > 0 for part in model.modules()) or model.inputs.noise
    return alone and not noisy and not any(layer.dropout for layer in model.layers()) and model.output_norm is None


class Piece(NamedTuple):
    """Some sequences of a batch."""

    inputs: Tensor  # [n, T, D]
    targets: Tensor  # [n, ...]
    lengths: Tensor | None  # [n]


def states_of(model: SequenceModel, batches: Batches) -> Iterator[tuple[Tensor, Piece]]:
    """What the head reads, [n, F] or [n, T, F], with the sequences that it belongs to, a few at a time."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for batch in batches():
            per_sequence = model.head.in_features * (batch.inputs.shape[1] if model.every_step else 1)
            for rows in torch.arange(len(batch.inputs)).split(max(1, AT_ONCE // per_sequence)):
                lengths = getattr(batch, "lengths", None)
                part = Piece(batch.inputs[rows], batch.targets[rows], None if lengths is None else lengths[rows])
                yield model.features(part.inputs, part.lengths), part
    model.train(was_training)


def solve_values(model: SequenceModel, train: Batches, target: Callable[[Tensor], Tensor]) -> float:
    """Give a head for values the weights of ridge regression.

    Args:
        model: the model.
        train: the training batches.
        target: what the head should give, as a function of the targets of a batch; NaN where there is nothing to learn.

    Returns:
        What `start_from` returns.
    """
    readout = Ridge(PENALTIES, relative=True)
    for states, batch in states_of(model, train):
        wanted = target(batch.targets)
        known = ~wanted.isnan().any(-1)
        readout.add(states[known], wanted[known])
    give(model.head, readout.solve())
    return SOLVED


def solve_classes(model: SequenceModel, train: Batches, validation: Batches) -> float:
    """Give a head for classes the weights of logistic regression.

    Args:
        model: the model.
        train: the training batches.
        validation: the validation batches, which choose the penalty; there may be none.

    Returns:
        What `start_from` returns.
    """
    (H, y), (H_new, y_new) = (_labelled(model, batches) for batches in (train, validation))
    count = model.head.out_features
    if not len(H_new):
        give(model.head, Logistic().fit(H, y, count))
        return SOLVED
    give(model.head, _best_logistic(H, y, H_new, y_new, count))
    return SOLVED


def _best_logistic(H: Tensor, y: Tensor, H_new: Tensor, y_new: Tensor, count: int) -> Logistic:
    """Logistic regression with the penalty whose loss on new rows is smallest."""
    each = [Logistic(penalty).fit(H, y, count) for penalty in CLASS_PENALTIES]
    return min(each, key=lambda made: float(nn.functional.cross_entropy(made(H_new.double()), y_new)))


def _labelled(model: SequenceModel, batches: Batches) -> tuple[Tensor, Tensor]:  # [N, F], [N]
    pairs = []
    for states, part in states_of(model, batches):
        known = part.targets >= 0  # not IGNORE
        pairs.append((states[known].cpu(), part.targets[known].cpu()))
    H = torch.cat([states for states, _ in pairs]) if pairs else torch.zeros(0, model.head.in_features)
    y = torch.cat([targets for _, targets in pairs]) if pairs else torch.zeros(0, dtype=torch.int64)
    every = -(-len(H) // MOST_ROWS) or 1
    return H[::every], y[::every]


@torch.no_grad()
def give(head: nn.Linear, readout: LinearReadout) -> None:
    """Copy the weights of a readout to a head."""
    assert readout.weight is not None
    assert readout.bias is not None
    head.weight.copy_(readout.weight)
    head.bias.copy_(readout.bias)
