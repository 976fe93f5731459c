"""Exact parametrisations of structured matrices: skew, orthogonal, of bounded spectrum."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

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


def complex_block(real: Tensor, imaginary: Tensor) -> Tensor:  # [n, n] each -> [2n, 2n]
    """[[P, −Q], [Q, P]], which acts on the real parts and then the imaginary parts of z as P + iQ acts on z."""
    return torch.cat([torch.cat([real, -imaginary], dim=1), torch.cat([imaginary, real], dim=1)])


def skew_hermitian(free: Tensor, n: int) -> Tensor:  # [n, n], complex
    """A = K + iS with skew K and symmetric S, whose exponential and Cayley map are unitary.

    The n² free values are the strictly upper triangle of K, then the upper triangle of S with its diagonal.
    """
    above = n * (n - 1) // 2
    row, column = torch.triu_indices(n, n, device=free.device)
    S = free.new_zeros(n, n).index_put((row, column), free[above:])
    return torch.complex(skew(free[:above], n), S + torch.triu(S, 1).t())


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
    angle = _per_row(angles, n)
    identity = torch.eye(n, dtype=angle.dtype, device=angle.device)
    return _layers(identity, torch.cos(angle), _signs(angle) * torch.sin(angle))


def complex_rotations(angles: Sequence[Tensor], phases: Sequence[Tensor], first: Tensor) -> Tensor:  # [n, n], complex
    """EURNN's tunable unitary matrix: phases of all units, then layers of [[e^iφ·cos θ, −e^iφ·sin θ], [sin θ, cos θ]].

    The pairs of a layer are those of `rotations`. The paper has the phases D of all units after the layers F, R = D·F.
    With R = F·D the states are those of D⁻¹·h, since modReLU commutes with phases. So the networks are the same, and no
    phase repeats that of the last layer.
    """
    angle = _per_row(angles, len(first))
    signs = _signs(angle)
    phase = torch.where(signs < 0, _per_row(phases, len(first)), 0)  # of the upper row of a pair
    turn = torch.polar(torch.ones_like(phase), phase)
    start = torch.diag(torch.polar(torch.ones_like(first), first))
    return _layers(start, turn * torch.cos(angle), turn * (signs * torch.sin(angle)))


def _per_row(values: Sequence[Tensor], n: int) -> Tensor:  # [layers, n]
    """The value of the pair that each row belongs to in each layer; 0 for a row without a partner."""
    rows = []
    for layer, of_pairs in enumerate(values):
        before, pairs = layer % 2, (n - layer % 2) // 2
        rows.append(functional.pad(of_pairs[:pairs].repeat_interleave(2), (before, n - before - 2 * pairs)))
    return torch.stack(rows)


def _signs(angle: Tensor) -> Tensor:  # [layers, n]
    """−1 for the upper row of a pair, 1 for the lower one."""
    layers, n = angle.shape
    place = torch.arange(n, device=angle.device) - torch.arange(layers, device=angle.device)[:, None]
    return torch.where(place % 2 == 0, -1, 1).to(angle.dtype)


def _layers(product: Tensor, own: Tensor, other: Tensor) -> Tensor:
    """Layer after layer, row i of the product becomes own[i]·row i + other[i]·row of its partner."""
    n = len(product)
    row = torch.arange(n, device=product.device)
    # A row without a partner has other = 0; any row will do.
    partners = [((row - shift) ^ 1).add(shift).clamp(0, n - 1) for shift in (0, 1)]
    for layer, (c, s) in enumerate(zip(own.unbind(0), other.unbind(0), strict=True)):
        swapped = product.index_select(0, partners[layer % 2])
        product = torch.addcmul(c.unsqueeze(1) * product, s.unsqueeze(1), swapped)
    return product


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
