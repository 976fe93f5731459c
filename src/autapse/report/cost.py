"""What a model costs: parameters, bytes, multiply-accumulates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

from autapse.models import Model
from autapse.training.feeds import Batch


@dataclass(frozen=True)
class Cost:
    """The size of a model, and what it computes per step."""

    parameters: int  # numbers that are trained
    size: int  # bytes of parameters and buffers
    macs: float | None  # multiply-accumulates of the matrix products per step; None if no sequence was at hand
    steps: int  # steps of the sequence on which they were counted: the one that is read, or written


def cost_of(model: Model, batch: Batch | None) -> Cost:
    """Count the cost of a model.

    Args:
        model: the model.
        batch: one sequence to count on, or None. An implicit network or an equilibrium is solved on it, so its cost
            depends on the sequence.
    """
    tensors = [*model.parameters(), *model.buffers()]
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if batch is None:
        return Cost(parameters, size, None, 0)
    steps = int(batch.padded_targets.lengths.max()) if model.feeds_back else int(batch.inputs.shape[1])
    return Cost(parameters, size, count_macs(model, batch) / steps, steps)


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Without oneDNN's kernels. (`mkldnn.flags` sets other flags too, and warns about them.)"""
    before = torch.backends.mkldnn.set_flags(_enabled=False)[0]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before)


@torch.enable_grad()
def count_macs(model: Model, batch: Batch) -> float:
    """Multiply-accumulates of all matrix products of one pass over a batch, counted as PyTorch runs them.

    PyTorch's counter sees its own operations only. With gradients, inside a level of forward-mode differentiation, our
    kernels do not serve; and without oneDNN an LSTM is made of plain products.
    """
    known = {"targets": batch.padded_targets} if model.feeds_back else {}
    counter = FlopCounterMode(display=False)
    with _without_onednn(), forward_ad.dual_level(), counter:
        model.carry(batch.inputs, batch.lengths, None, **known)
    return counter.get_total_flops() / 2
