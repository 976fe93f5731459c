"""Exact parametrisations of structured matrices: skew, orthogonal, of bounded spectrum."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from autapse.gradient.function import without_autocast


def full_precision(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute in: float32 for half precision, which LAPACK and the matrix exponential do not support."""
    return torch.promote_types(dtype, torch.float32)


def in_full_precision(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Decorator: compute a function of matrices in full precision. The result has the dtype of the first matrix."""

    @functools.wraps(function)
    def widened(*matrices: Tensor) -> Tensor:
        dtype, device = matrices[0].dtype, matrices[0].device.type
        wide = full_precision(dtype)
        with without_autocast(device):
            return function(*(matrix.to(wide) for matrix in matrices)).to(dtype)

    return widened


def skew(free: Tensor, n: int) -> Tensor:
    """W − Wᵀ, where the n(n−1)/2 free values are the strictly upper triangle of W, row by row."""
    row, column = torch.triu_indices(n, n, offset=1, device=free.device)
    W = free.new_zeros(n, n).index_put((row, column), free)
    return W - W.t()


def damped(free: Tensor, n: int, diffusion: float, structured: bool) -> Tensor:
    """W − Wᵀ − γI with a strictly upper triangular W, or W − γI with a full W if it is not structured."""
    W = skew(free, n) if structured else free
    return W - diffusion * torch.eye(n, dtype=W.dtype, device=W.device)


@in_full_precision
def exponential(A: Tensor) -> Tensor:
    """exp(A), orthogonal with determinant 1 for a skew A."""
    # As exp(A + I) / e: for matrices of small norm torch's polynomial has a wrong coefficient (pytorch/pytorch#196592).
    identity = torch.eye(A.shape[0], dtype=A.dtype, device=A.device)
    return torch.linalg.matrix_exp(A + identity) / math.e


@in_full_precision
def cayley(A: Tensor) -> Tensor:
    """(I − A)⁻¹(I + A), orthogonal without the eigenvalue −1 for a skew A."""
    identity = torch.eye(A.shape[0], dtype=A.dtype, device=A.device)
    return torch.linalg.solve(identity - A, identity + A)


def rotations(angles: Sequence[Tensor], n: int) -> Tensor:
    """A product of layers of 2×2 rotations, one angle per pair in each layer.

    Layer l turns the coordinate pairs (l mod 2 + 2i, l mod 2 + 2i + 1), as in the real form of EURNN's tunable style.
    """
    product = torch.eye(n, dtype=angles[0].dtype, device=angles[0].device)
    for layer, angle in enumerate(angles):
        product = _rotate_pairs(product, angle, offset=layer % 2)
    return product


def _rotate_pairs(matrix: Tensor, angle: Tensor, offset: int) -> Tensor:
    n = matrix.shape[0]
    pairs = (n - offset) // 2
    cos, sin = torch.cos(angle[:pairs, None]), torch.sin(angle[:pairs, None])
    upper, lower = matrix[offset : offset + 2 * pairs].view(pairs, 2, n).unbind(1)
    turned = torch.stack([cos * upper - sin * lower, sin * upper + cos * lower], dim=1).reshape(2 * pairs, n)
    return torch.cat([matrix[:offset], turned, matrix[offset + 2 * pairs :]])


@in_full_precision
def reflections(vectors: Tensor) -> Tensor:
    """The product of the Householder reflections I − 2vvᵀ/(vᵀv) along the columns v of `vectors` [n, m].

    In the compact form I − V·T⁻¹·Vᵀ, T the upper triangle of VᵀV with its diagonal halved: matrix products instead of m
    rank-one updates.
    """
    unit = vectors / vectors.norm(dim=0, keepdim=True)
    gram = unit.t() @ unit
    T = torch.triu(gram, diagonal=1) + 0.5 * torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    identity = torch.eye(unit.shape[0], dtype=unit.dtype, device=unit.device)
    return identity - unit @ torch.linalg.solve_triangular(T, unit.t(), upper=True)


@in_full_precision
def settled(feedback: Tensor, matrix: Tensor) -> Tensor:
    """(I − feedback)⁻¹·matrix."""
    identity = torch.eye(feedback.shape[0], dtype=feedback.dtype, device=feedback.device)
    return torch.linalg.solve(identity - feedback, matrix)
