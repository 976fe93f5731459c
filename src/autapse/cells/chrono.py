"""Gate biases that start by the longest dependency to be learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks


def checked_longest(longest: Any, bias: bool) -> int | None:
    """The number of steps that a user gave, or None."""
    if longest is None:
        return None
    if not bias:
        checks.fail("longest", "be used with bias=True", longest, "Omit one of the two.")
    return checks.integer("longest", longest, minimum=3)


@torch.no_grad()
def log_uniform_times_(bias: Tensor, longest: int) -> Tensor:
    """log u with u uniform in [1, T − 1] for each unit.

    A gate σ(b) that multiplies the state at every step keeps it for about 1/(1 − σ(b)) = 1 + eᵇ steps. So the units
    start with memories of 2 to T steps. This is the "chrono initialization" of Tallec and Ollivier 2018, "Can recurrent
    neural networks warp time?".

    Args:
        bias: the biases of such a gate, which are changed in place.
        longest: T, the longest dependency in steps.

    Returns:
        The biases.
    """
    return bias.uniform_(1, longest - 1).log_()
