"""The mean of the weights over the end of the training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from autapse.models import Model
from autapse.training.feeds import Batch


class Average:
    """The running mean of a model's parameters, one step after the other.

    Args:
        model: the model.
    """

    def __init__(self, model: Model) -> None:
        self._parameters = dict(model.named_parameters())
        self.count = 0
        self.mean: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self) -> None:
        """Include the present weights."""
        self.count += 1
        if self.count == 1:
            self.mean = {name: value.detach().clone() for name, value in self._parameters.items()}
        else:
            present = [value.detach() for value in self._parameters.values()]
            torch._foreach_lerp_(list(self.mean.values()), present, 1 / self.count)

    def restore(self, mean: dict[str, Tensor], count: int) -> None:
        """Continue with the mean and the count that another average had."""
        self.count = count
        self.mean = {name: mean[name].to(value.device) for name, value in self._parameters.items()} if count else {}

    def reset(self) -> None:
        """Forget everything."""
        self.count, self.mean = 0, {}


@contextmanager
def averaged(model: Model, average: Average, batches: Iterable[Batch]) -> Iterator[None]:
    """Give a model the mean weights for a while.

    Args:
        model: the model. It has its own weights again afterwards.
        average: the mean weights.
        batches: training batches, from which the statistics of batch norms are recomputed: those of the present
            weights do not belong to the mean weights.
    """
    own = {name: value.detach().clone() for name, value in model.state_dict().items()}
    try:
        model.load_state_dict(average.mean, strict=False)
        _recompute_statistics(model, batches)
        yield
    finally:
        model.load_state_dict(own)


@torch.no_grad()
def _recompute_statistics(model: Model, batches: Iterable[Batch]) -> None:
    """Set the running statistics of all batch norms to their means over some batches."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta, was_training = [norm.momentum for norm in norms], model.training
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
        norm.train()
    for batch in batches:
        model(batch.inputs, batch.lengths)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)
