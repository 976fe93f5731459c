"""The textbook's rescue (section 10.7.7): no step is ever taken with a gradient that is not finite."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from autapse.exit_codes import Ending


class Diverged(Ending, RuntimeError):  # noqa: N818 (an outcome of training, not a programming error)
    """Training could not recover from gradients that are not finite.

    Args:
        step: the step of the last of them.
        rescues: how many there were in a row.
        batch: the numbers of the training sequences of that step.
        checkpoint: the last good checkpoint; None without a run folder.
    """

    def __init__(self, step: int, rescues: int, batch: Sequence[int], checkpoint: object) -> None:
        shown = ", ".join(map(str, batch[:8])) + (", ..." if len(batch) > 8 else "")
        saved = f"The last good checkpoint is {checkpoint}. " if checkpoint is not None else ""
        super().__init__(
            f"Training diverged: {rescues} gradients in a row were not finite, the last at step {step} on training "
            f"sequences [{shown}]. {saved}"
            "Try a smaller learning rate or a smaller clip_norm; for hessian-free, a larger damping."
        )


@torch.no_grad()
def random_step(parameters: Sequence[nn.Parameter], rate: float, norm: float, seed: int) -> None:
    """Take a step of size rate·norm in a random direction, which tends to leave the unstable region."""
    generator = torch.Generator().manual_seed(seed)
    # Drawn on the CPU, so that every device and every process takes the same step.
    direction: list[Tensor] = [torch.randn(p.shape, generator=generator) for p in parameters]
    length = torch.nn.utils.get_total_norm(direction)
    for parameter, part in zip(parameters, direction, strict=True):
        parameter.sub_((part * (rate * norm / length)).to(parameter.device, parameter.dtype))
