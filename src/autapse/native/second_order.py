"""The gradient of a kernel as a function that autograd can differentiate again: that of its reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Reference = Callable[..., Sequence[Tensor]]


def second_order(
    reference: Reference, given: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    # Views, so that autograd differentiates with respect to these tensors and not to what they depend on.
    views = [tensor.view_as(tensor) for tensor in given]
    pairs = [(o, g) for o, g in zip(reference(*views), gradients, strict=True) if g is not None]
    wanted = [view for view in views if view.requires_grad]
    derivatives = iter(
        torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True)
    )
    return tuple(next(derivatives) if view.requires_grad else None for view in views)
