"""Form: what every recurrence form offers."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

State = tuple[Tensor, ...]


class Form:
    """The effective matrices and coefficients of a cell, built once per sequence, with the reference step.

    `step` is plain PyTorch and reads like its equation; it is the truth that fused kernels are compared with.
    """

    name: ClassVar[str]

    def step(
        self,
        u: Tensor,  # [B, G], the drive
        state: State,  # each [B, S]
        t: int,  # position, for coefficients that depend on it
    ) -> State:
        raise NotImplementedError

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:  # [B, S, S], S the sizes of all states together
        """D step(u, state, t) / d state, in closed form."""
        raise NotImplementedError


def rows(scale: Tensor, matrix: Tensor) -> Tensor:
    """diag(scale)·matrix for each row of a batch: [B, H], [H, S] -> [B, H, S]."""
    return scale.unsqueeze(-1) * matrix


def diagonal(scale: Tensor) -> Tensor:
    """diag(scale) for each row of a batch: [B, H] -> [B, H, H]."""
    return torch.diag_embed(scale)
