"""The structured matrices against SciPy and against explicit products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor
from torch.testing import assert_close

from autapse.cells import matrices
from autapse.cells.unitary_exponential import unitary_exponential
from networks import givens_product, reflection_product, strictly_upper
from tolerance import TOLERANCE, close

SIZES = [1, 2, 3, 5, 8]


def free(n: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(n * (n - 1) // 2, dtype=torch.float64)


def assert_orthogonal(R: Tensor) -> None:
    close(R @ R.T, torch.eye(len(R), dtype=R.dtype))


@pytest.mark.parametrize("n", SIZES)
def test_skew_has_its_values_row_by_row_above_the_diagonal(n: int) -> None:
    values = free(n)
    W = strictly_upper(values, n) if n > 1 else torch.zeros(1, 1, dtype=torch.float64)
    assert torch.equal(matrices.skew(values, n), W - W.T)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_exponential_is_scipys(n: int, scale: float) -> None:
    A = matrices.skew(free(n, scale), n)
    R = matrices.exponential(A)
    close(R, torch.from_numpy(scipy.linalg.expm(A.numpy())))
    assert_orthogonal(R)
    close(torch.det(R), torch.ones((), dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("angle", [10 ** (n / 4) for n in range(-20, 3)])
def test_exponential_of_a_plane_is_a_rotation(angle: float, dtype: torch.dtype) -> None:
    """At every size of A: torch changes its polynomial with the norm."""
    free = torch.tensor([angle], dtype=dtype, requires_grad=True)
    R = matrices.exponential(matrices.skew(free, 2))
    (gradient,) = torch.autograd.grad(R[0, 1], free)
    exact = free.detach().double()
    cos, sin = exact.cos(), exact.sin()
    few = 10 * torch.finfo(dtype).eps
    assert_close(R.detach().double(), torch.stack([cos, sin, -sin, cos]).view(2, 2), rtol=0, atol=few)
    assert_close(gradient.double(), cos, rtol=0, atol=few)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_cayley_is_scipys(n: int, scale: float) -> None:
    A = matrices.skew(free(n, scale), n)
    R = matrices.cayley(A)
    identity = np.eye(n)
    close(R, torch.from_numpy((identity + A.numpy()) @ scipy.linalg.inv(identity - A.numpy())))
    assert_orthogonal(R)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_rotations_are_the_product_of_givens_matrices(n: int, layers: int) -> None:
    angles = 3 * torch.randn(layers, n // 2, dtype=torch.float64)
    R = matrices.rotations(angles, n)
    close(R, givens_product(angles, n))
    assert_orthogonal(R)


def test_one_rotation_turns_the_first_pair() -> None:
    turned = matrices.rotations(torch.tensor([[torch.pi / 2]], dtype=torch.float64), 3) @ torch.eye(3).double()
    close(turned, torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]], dtype=torch.float64))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 1), (3, 3), (5, 2), (8, 8)])
def test_reflections_are_the_product_of_householder_matrices(n: int, m: int) -> None:
    vectors = torch.randn(n, m, dtype=torch.float64)
    product = matrices.reflections(vectors)
    close(product, reflection_product(vectors))
    assert_orthogonal(product)


def test_reflections_do_not_depend_on_the_length_of_their_vectors() -> None:
    vectors = torch.randn(5, 3, dtype=torch.float64)
    close(matrices.reflections(vectors * torch.tensor([1e-3, 1.0, 1e3])), matrices.reflections(vectors))


@pytest.mark.parametrize("n", [2, 3, 6])
def test_as_many_reflections_as_the_size_reach_any_orthogonal_matrix(n: int) -> None:
    """Scipy's QR of an orthogonal matrix has the Householder vectors; n of them suffice, up to signs."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))
    (packed, _), R = scipy.linalg.qr(Q, mode="raw")
    vectors = torch.from_numpy(np.tril(packed, -1) + np.eye(n))[:, : n - 1]
    close(matrices.reflections(vectors) @ torch.from_numpy(R), torch.from_numpy(Q))


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda v: matrices.exponential(matrices.skew(v, 4)), (6,)),
        (lambda v: matrices.cayley(matrices.skew(v, 4)), (6,)),
        (lambda v: matrices.rotations(v, 5), (3, 2)),
        (lambda v: unitary_exponential(matrices.skew_hermitian(v, 4)), (16,)),
        (lambda v: unitary_exponential(matrices.skew_hermitian(v, 4) / 1e3), (16,)),
        (lambda v: matrices.cayley(matrices.skew_hermitian(v, 4)), (16,)),
        (lambda v: matrices.complex_rotations(v[:3], v[3:6], v[6:].flatten()[:5]), (9, 2)),
        (matrices.reflections, (4, 3)),
    ],
    ids=["exponential", "cayley", "rotations", "unitary", "near one", "complex cayley", "phases", "reflections"],
)
def test_derivatives_by_finite_differences(build: object, shape: tuple[int, ...]) -> None:
    values = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(build, values)
    assert torch.autograd.gradgradcheck(build, values)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_dtype_is_kept(dtype: torch.dtype) -> None:
    values = torch.randn(6, dtype=dtype)
    assert matrices.exponential(matrices.skew(values, 4)).dtype == dtype
    assert matrices.cayley(matrices.skew(values, 4)).dtype == dtype
    assert matrices.rotations(values.view(3, 2), 4).dtype == dtype
    assert matrices.reflections(values.view(3, 2)).dtype == dtype
