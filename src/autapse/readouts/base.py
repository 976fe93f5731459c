"""LinearReadout: what all readouts share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks


class LinearReadout(nn.Module):
    """The base of readouts: y = W·h + c, with W and c as buffers in float64. Not for direct use."""

    weight: Tensor | None  # W, [K, H]
    bias: Tensor | None  # c, [K]

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", None)
        self.register_buffer("bias", None)

    def forward(self, states: Tensor) -> Tensor:  # [..., H] -> [..., K]
        """W·h + c for each state, in the dtype of the states."""
        if self.weight is None or self.bias is None:
            raise checks.InputError(f"This {type(self).__name__} has no weights yet. Call fit first.")
        if states.shape[-1] != self.weight.shape[1]:
            rule = f"have {self.weight.shape[1]} features, as those of fit"
            checks.fail("states", rule, states.shape[-1], kind=checks.ShapeError)
        return F.linear(states, self.weight.to(states), self.bias.to(states))


def rows_of(name: str, values: Any, width: int | None = None) -> Tensor:  # [..., F] -> [N, F]
    """Values as rows in float64. They must be finite."""
    if not isinstance(values, Tensor):
        values = torch.as_tensor(values)
    if values.dim() < 2 or (width is not None and values.shape[-1] != width):
        rule = "have shape (..., features)" if width is None else f"have {width} columns, as before"
        checks.fail(name, rule, tuple(values.shape), kind=checks.ShapeError)
    rows = values.detach().reshape(-1, values.shape[-1]).to("cpu", torch.float64)
    if not bool(torch.isfinite(rows).all()):
        checks.fail(name, "have finite values", f"{int((~torch.isfinite(rows)).sum())} that are NaN or infinite")
    return rows


def pairs_of(states: Any, targets: Any, width: int | None = None, outputs: int | None = None) -> tuple[Tensor, Tensor]:
    """States and targets as rows in float64: [N, H], [N, K]."""
    H, Y = rows_of("states", states, width), rows_of("targets", targets, outputs)
    if len(H) != len(Y):
        checks.fail("targets", f"have one row per state, {len(H)}", len(Y), kind=checks.ShapeError)
    return H, Y
