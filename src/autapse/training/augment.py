"""Random changes of training sequences. All draw from torch's generator, which the loop seeds at every step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.layers.noise import generator, normal_like
from autapse.models import Model
from autapse.tasks import IGNORE, Signature
from autapse.training.amounts import Amounts
from autapse.training.feeds import Batch

STRUCTURES = ("segmentation", "image classification", "trees")  # kinds whose steps are not a sequence in time
SHARE = 0.5  # of the sequences, to which a change applies


class Mixed(NamedTuple):
    """The second targets of a batch, their share in the loss, and the weights of their sequences."""

    targets: Tensor
    share: float
    weights: Tensor | None = None  # [B]


def check_augmentation(amounts: Amounts, signature: Signature) -> None:
    """Words cannot be stretched or mixed, and what a sequence depends on cannot be changed apart from it."""
    if signature.written is not None and any(vars(amounts).values()):
        checks.fail("augment", "be none for a task that writes sequences", amounts)
    if signature.kind in STRUCTURES and (amounts.slice or amounts.warp or amounts.mixup):
        checks.fail("augment", f"be jitter or scaling for {signature.kind}", amounts)
    if signature.vocabularies and (amounts.slice or amounts.warp or amounts.mixup):
        checks.fail("augment", "be jitter or scaling for inputs with words", amounts)


@contextmanager
def changed_inputs(model: Model, amounts: Amounts) -> Iterator[None]:
    """Let a model add noise to its scaled inputs, and multiply them, for a while."""
    if not (amounts.jitter or amounts.scaling):
        yield
        return

    def changed(inputs: Any, _arguments: Any, x: Tensor) -> Tensor:  # [B, T, D]
        columns = getattr(inputs, "continuous", True)  # not those that say what is missing
        if amounts.scaling:
            factor = torch.exp(amounts.scaling * normal_like(x[:, :1]))
            x = torch.where(_chosen(x) & columns, x * factor, x)
        if amounts.jitter:
            x = x + amounts.jitter * (_chosen(x) & columns) * normal_like(x)
        return x

    hooks = [member.inputs.register_forward_hook(changed) for member in model.members]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def change_batch(batch: Batch, amounts: Amounts, per_step: bool) -> tuple[Batch, Mixed | None]:
    """Slice, warp and mix the sequences of a batch.

    Args:
        batch: the sequences, as they are stored.
        amounts: how strongly.
        per_step: whether every step has a target.

    Returns:
        The changed batch; and the second targets if two sequences were mixed, or None.
    """
    if amounts.slice or amounts.warp:
        batch = _stretched(batch, amounts, per_step)
    if amounts.mixup and float(torch.rand(())) < SHARE:
        return _mixed(batch, amounts.mixup, per_step)
    return batch, None


def _chosen(x: Tensor) -> Tensor:  # [B, 1, 1]
    """The sequences to which a change applies."""
    return torch.rand(len(x), 1, 1, device=x.device, generator=generator()) < SHARE


def _stretched(batch: Batch, amounts: Amounts, per_step: bool) -> Batch:
    """Read each sequence at other times: a window of it, at a speed that changes."""
    x, count, steps = batch.inputs, *batch.inputs.shape[:2]
    last = torch.full((count, 1), steps - 1.0) if batch.lengths is None else (batch.lengths[:, None] - 1.0).clamp(min=0)
    time = (torch.arange(steps)[None] / last.clamp(min=1)).clamp(max=1)  # [B, T], from 0 to 1
    speed = amounts.warp * (2 * torch.rand(count, 1) - 1)
    time = time + speed * torch.sin(math.pi * time) / math.pi
    cut = amounts.slice * torch.rand(count, 1)
    time = cut * torch.rand(count, 1) + (1 - cut) * time
    place = (time * last).to(x.device)
    inside = torch.arange(steps, device=x.device)[None] <= last.to(x.device)
    applies = (_chosen(x)[..., 0] & inside)[..., None]
    low, near = place.floor().long(), place.round().long()
    high = torch.minimum(low + 1, last.to(x.device).long())
    part = (place - low)[..., None].to(x.dtype)
    between = _at(x, low) * (1 - part) + _at(x, high) * part
    between = torch.where(between.isnan(), _at(x, near), between)  # a missing value beside one that is there
    targets = batch.targets
    if per_step:
        rows = targets if targets.dim() == 3 else targets[..., None]  # values, or a class
        targets = torch.where(applies, _at(rows, near), rows).reshape(targets.shape)
    return batch._replace(inputs=torch.where(applies, between, x), targets=targets)


def _at(x: Tensor, place: Tensor) -> Tensor:  # [B, T, D], [B, T] -> [B, T, D]
    return x.gather(1, place[..., None].expand(-1, -1, x.shape[-1]))


def _mixed(batch: Batch, amount: float, per_step: bool) -> tuple[Batch, Mixed]:
    """Mix each sequence with another one of the batch, over the steps that both have."""
    share = float(torch.distributions.Beta(amount, amount).sample())
    share = min(share, 1 - share)
    other = torch.randperm(len(batch.inputs))
    first, second = batch.targets, batch.targets[other]
    if per_step:
        none = torch.nan if first.is_floating_point() else IGNORE
        both = (first == first) & (second == second) & (first != none) & (second != none)  # noqa: PLR0124 (NaN)
        first, second = torch.where(both, first, none), torch.where(both, second, none)
    inputs = (1 - share) * batch.inputs + share * batch.inputs[other]
    lengths = None if batch.lengths is None else torch.minimum(batch.lengths, batch.lengths[other])
    weights = None if batch.weights is None else batch.weights[other]
    return batch._replace(inputs=inputs, targets=first, lengths=lengths), Mixed(second, share, weights)
