"""Loss and score of a task, as sums over a batch, so that batches and processes can be added exactly.

Not in `tasks`, which do without torch, so that the command line can list their options quickly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.models.encoder_decoder import Translated
from autapse.tasks.base import IGNORE, Signature, Task
from autapse.tasks.forecast import Forecasting
from autapse.tasks.multiplication import Multiplication
from autapse.training.config import TrainingConfig
from autapse.training.feeds import Batch
from autapse.training.forecast_losses import forecast_losses
from autapse.training.scores import edits_of, last_targets


class Objective(NamedTuple):
    """Training minimises loss / count and reports metric(score / count). For both, smaller is better."""

    loss: Callable[[Any, Tensor], Tensor]  # (output, target) -> sum over the counted entries
    score: Callable[[Any, Tensor], Tensor]  # the same, for reports
    count: Callable[[Batch], int]  # sequences, or positions of a tagging task
    metric: Callable[[float], float] = float  # score / count -> the number that is reported
    score_count: Callable[[Batch], int] | None = None  # entries of the score, if others than those of the loss


def objective(task: Task) -> Objective:
    """The objective of a task, from its kind and its metric.

    Args:
        task: the task.

    Returns:
        Its loss and score, as functions of a model's output and the targets.

    >>> from autapse.tasks import Adding
    >>> goal, target = objective(Adding()), torch.zeros(4, 1)
    >>> float(goal.loss(torch.ones(4, 1), target))
    4.0
    """
    if isinstance(task, Multiplication):
        return Objective(_squared_error, partial(_wrong_answers, task.tolerance), _sequences)
    if task.kind == "regression":
        return Objective(_squared_error, _squared_error, _sequences)
    if isinstance(task, Forecasting):
        return Objective(*forecast_losses(task), _sequences)
    if task.kind == "regression per step":
        return Objective(_squared_error_of_steps, _squared_error_of_steps, _known_steps)
    if task.kind == "generation":
        return Objective(_unlikelihood, _unlikelihood, _elements)
    if task.kind == "translation":
        if task.metric == "symbol error rate":
            return Objective(_unlikelihood, _wrong_symbols, _elements, score_count=_elements)
        return Objective(_unlikelihood, _wrong_sequences, _elements, score_count=_sequences)
    if task.kind == "trees" and getattr(task, "scored", "nodes") == "root":
        return Objective(_cross_entropy, _wrong_roots, _valid, score_count=_sequences)
    if task.metric == "perplexity":
        return Objective(_cross_entropy, _cross_entropy, _valid, _perplexity)
    if task.metric == "bits per character":
        return Objective(_cross_entropy, _cross_entropy, _valid, _bits)
    if task.metric == "cross-entropy":
        return Objective(_cross_entropy, _cross_entropy, _valid)
    return Objective(_cross_entropy, _errors, _valid)


def in_units(goal: Objective, signature: Signature) -> Objective:
    """The objective with a loss in units of the deviation of each target, so that all of them count the same.

    Args:
        goal: the objective of the task.
        signature: the deviations of the targets, if they are known.

    >>> from autapse.tasks import Adding
    >>> signature = Signature(kind="regression", input_size=1, output_size=2, target_scale=(1.0, 100.0))
    >>> goal, output = in_units(objective(Adding()), signature), torch.tensor([[1.0, 100.0]])
    >>> float(goal.loss(output, 0 * output)), float(goal.score(output, 0 * output))
    (1.0, 5000.5)
    """
    if "regression" not in signature.kind or not signature.target_scale:
        return goal
    scale = torch.tensor(signature.target_scale)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        unit = scale.to(output)
        return goal.loss(output / unit, target / unit)

    return goal._replace(loss=loss)


def training_loss(
    goal: Objective, settings: TrainingConfig, signature: Signature, targets: Tensor
) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss that training minimises: the objective's, with label smoothing and class weights.

    Args:
        goal: the objective of the task.
        settings: the settings of the training.
        signature: the kind and the number of classes.
        targets: all training targets, from which the frequencies of the classes are counted.

    Returns:
        A function of output and target, as `Objective.loss`.
    """
    if not settings.label_smoothing and settings.class_weights == "none":
        return goal.loss
    if "regression" in signature.kind or signature.written is not None:
        given = "label_smoothing" if settings.label_smoothing else "class_weights"
        checks.fail(given, "be used with classes only", getattr(settings, given))
    weight = balanced_weights(targets, signature.output_size) if settings.class_weights == "balanced" else None

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            output.flatten(0, -2),
            target.flatten(),
            weight=None if weight is None else weight.to(output),
            ignore_index=IGNORE,
            reduction="sum",
            label_smoothing=settings.label_smoothing,
        )

    return loss


def weighted(
    loss: Callable[[Tensor, Tensor], Tensor],
    output: Tensor,  # [B, ...]
    targets: Tensor,  # [B, ...]
    weights: Tensor | None,  # [B]
) -> Tensor:
    """The sum over a batch of weight times loss. `loss` is a sum over sequences; None for the weights is 1."""
    if weights is None:
        return loss(output, targets)
    groups = [(weight, weights == weight) for weight in weights.unique()]
    return torch.stack([weight * loss(output[rows], targets[rows]) for weight, rows in groups]).sum()


def of_each(goal: Objective, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:  # [B] each
    """The loss of each sequence of a batch, and the number of its targets."""
    rows = [batch._replace(targets=batch.targets[n : n + 1]) for n in range(len(batch.targets))]
    losses = torch.stack([goal.loss(output[n : n + 1], row.targets) for n, row in enumerate(rows)])
    counts = torch.tensor([goal.count(row) for row in rows], device=losses.device)
    return losses if batch.weights is None else losses * batch.weights, counts


def balanced_weights(targets: Tensor, classes: int) -> Tensor:  # [classes]
    """One weight per class, in inverse proportion to its frequency; their mean over the targets is 1."""
    counts = torch.bincount(targets[targets != IGNORE].flatten(), minlength=classes).double()
    present = counts > 0
    return torch.where(present, counts.sum() / (present.sum() * counts.clamp(min=1)), 0.0)


def _squared_error(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean(-1).sum()


def _wrong_answers(tolerance: float, output: Tensor, target: Tensor) -> Tensor:
    """Sequences with a value that is too far from its target."""
    return ((output - target).abs() > tolerance).any(-1).sum()


def _squared_error_of_steps(output: Tensor, target: Tensor) -> Tensor:
    """The same over steps, [B, T, K]. Steps after the end of a sequence have targets that are NaN."""
    known = ~target.isnan()
    return torch.where(known, output - torch.where(known, target, 0), 0).square().mean(-1).sum()


def _known_steps(batch: Batch) -> int:
    return int(torch.count_nonzero(~batch.targets.isnan().any(-1)))


def _sequences(batch: Batch) -> int:
    return len(batch.targets)


def _elements(batch: Batch) -> int:
    return int(batch.padded_targets.lengths.sum())


def _unlikelihood(output: Tensor | Translated, target: Tensor) -> Tensor:
    return -(output.log_likelihood if isinstance(output, Translated) else output).sum()


def _wrong_sequences(output: Translated, target: Tensor) -> Tensor:
    """Sequences with a wrong symbol or a wrong length."""
    return torch.tensor(int((edits_of(output) > 0).sum()))


def _wrong_symbols(output: Translated, target: Tensor) -> Tensor:
    """Symbols to change, to add or to remove."""
    return torch.tensor(int(edits_of(output).sum()))


def _cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, -2), target.flatten(), ignore_index=IGNORE, reduction="sum")


def _errors(output: Tensor, target: Tensor) -> Tensor:
    return ((output.argmax(-1) != target) & (target != IGNORE)).sum()


def _wrong_roots(output: Tensor, target: Tensor) -> Tensor:  # [B, T, classes], [B, T]
    """Errors at the roots, whose targets are the last ones of each tree."""
    return (output.argmax(-1) != target).gather(1, last_targets(target)[:, None]).sum()


def _valid(batch: Batch) -> int:
    return int(torch.count_nonzero(batch.targets != IGNORE))


def _bits(entropy: float) -> float:
    return entropy / math.log(2)


def _perplexity(entropy: float) -> float:
    return math.exp(entropy) if entropy < 700 else math.inf  # above that, exp raises an error
