"""How much rounding errors may grow in the solution of a linear system."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ROUNDS = 4  # of the power iteration that estimates a norm


def amplification(feedback: Tensor, LU: Tensor, pivots: Tensor) -> Tensor:  # [..., H, H], ..., [..., H] -> [...]
    """An estimate of ‖(I − J)⁻¹‖·(1 + ‖J‖) in the spectral norm; LU and pivots are the factors of I − J."""

    def solve_both(v: Tensor) -> Tensor:
        return torch.linalg.lu_solve(LU, pivots, torch.linalg.lu_solve(LU, pivots, v), adjoint=True)

    inverse = _spectral_norm(solve_both, feedback)
    # A singular matrix leads to divisions by zero; the results are not finite.
    inverse = torch.where(inverse.isnan() & feedback.isfinite().all(-1).all(-1), torch.inf, inverse)
    return inverse * (1 + _spectral_norm(lambda v: feedback.mT @ (feedback @ v), feedback))


def _spectral_norm(square: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """‖A‖ by a few rounds of the power iteration, given v -> AᵀA·v."""
    n = like.shape[-1]
    # No two entries are alike, so that no matrix of a simple pattern is orthogonal to it.
    v = torch.cos(torch.arange(n, dtype=like.dtype, device=like.device) * 1.7 + 0.3).expand(like.shape[:-1])
    v, size = v.unsqueeze(-1), torch.ones(like.shape[:-2], dtype=like.dtype, device=like.device)
    for _ in range(ROUNDS):
        v = square(v / v.norm(dim=-2, keepdim=True).clamp_min(torch.finfo(like.dtype).tiny))
        size = v.norm(dim=(-2, -1))
    return size.sqrt()


def loses_half(amplification: Tensor, dtype: torch.dtype) -> Tensor:
    """Whether rounding errors, grown by that much, may reach half of the digits."""
    return amplification * torch.finfo(dtype).eps ** 0.5 > 1
