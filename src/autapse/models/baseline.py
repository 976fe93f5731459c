"""REINFORCE: what random choices add to the loss, so that its gradient reaches their probabilities."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.layers.recurrent import Recurrent

SLOW = 0.05  # how fast the baseline follows the loss, once it has seen some steps


class RunningBaseline(nn.Module):
    """Σ (loss − baseline)·log p over the sequences of a batch, where p is the probability of what each one drew.

    The gradient of its mean is that of the expected loss with respect to the probabilities (Williams 1992). The
    baseline is the running mean of the loss per target, from the steps before this one. It changes only the noise of
    the estimate. It is a buffer, so that a run that is resumed continues with it.

    Args:
        device: where the buffers are.
        dtype: their type.

    >>> baseline = RunningBaseline()
    >>> losses, counts, log_p = torch.tensor([2.0, 3.0]), torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -0.5])
    >>> baseline(losses, counts, log_p)
    tensor(-3.5000)
    >>> baseline.update(1.5)
    >>> baseline(losses, counts, log_p)
    tensor(-0.5000)
    """

    mean: Tensor
    steps: Tensor

    def __init__(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros((), device=device, dtype=dtype))
        self.register_buffer("steps", torch.zeros((), device=device, dtype=torch.int64))

    def forward(
        self,
        losses: Tensor,  # [B], the loss of each sequence, a sum over its targets
        counts: Tensor,  # [B], the number of its targets
        log_probability: Tensor,  # [B], of all that it drew
    ) -> Tensor:
        return ((losses.detach() - self.mean * counts) * log_probability).sum()

    @torch.no_grad()
    def update(self, loss: float) -> None:
        """Include the mean loss per target of one more step."""
        self.steps += 1
        self.mean += max(SLOW, 1 / int(self.steps)) * (loss - self.mean)


def check_no_draws(layer: Recurrent, reason: str) -> None:
    """Raise an error for a layer whose draws are trained by REINFORCE, where a model cannot do that."""
    if layer.learns_draws:
        rule = f"draw nothing that is trained by REINFORCE: {reason}"
        checks.fail("cell", rule, layer, "With a memory, use hard=straight-through.")
