"""What chaos-free, unitary, gated orthogonal and Kronecker networks are said to have; errors of complex weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

import autapse
from autapse import checks
from autapse.cells.kru import prime_factors
from autapse.models import Classifier
from autapse.training import Loop
from autapse.training.penalties import orthogonality
from small import small_config
from tolerance import close

FLOAT64: dict[str, Any] = {"dtype": torch.float64}


def as_complex(block: Tensor) -> np.ndarray:
    """The complex matrix of [[P, −Q], [Q, P]]."""
    values = block.detach().numpy()
    n = len(values) // 2
    np.testing.assert_allclose(values[:n, :n], values[n:, n:], atol=1e-13)
    np.testing.assert_allclose(values[:n, n:], -values[n:, :n], atol=1e-13)
    return values[:n, :n] + 1j * values[n:, :n]


def skew_hermitian(free: np.ndarray, n: int) -> np.ndarray:
    """K + iS, from the strictly upper triangle of K and the upper triangle of S."""
    above = n * (n - 1) // 2
    K, S = np.zeros((n, n)), np.zeros((n, n))
    K[np.triu_indices(n, 1)] = free[:above]
    S[np.triu_indices(n)] = free[above:]
    return K - K.T + 1j * (S + np.triu(S, 1).T)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("kind", ["exp", "cayley"])
def test_the_full_capacity_matrix_is_scipys(n: int, kind: str) -> None:
    cell = autapse.cells.OrthogonalRNN(3, n, field="complex", parametrization=kind, **FLOAT64)
    torch.nn.init.normal_(cell.weight_hh)
    A, identity = skew_hermitian(cell.weight_hh.detach().numpy(), n), np.eye(n)
    expected = scipy.linalg.expm(A) if kind == "exp" else np.linalg.solve(identity - A, identity + A)
    R = as_complex(cell.matrix())
    np.testing.assert_allclose(R, expected, atol=1e-12)
    np.testing.assert_allclose(R.conj().T @ R, identity, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7])
def test_rotations_of_full_capacity_reach_every_dimension_of_the_unitary_group(n: int) -> None:
    """n² parameters, whose derivatives span the n² dimensions of the group's tangent space."""
    cell = autapse.cells.OrthogonalRNN(3, n, field="complex", parametrization="rotations", **FLOAT64)
    assert cell.weight_hh.numel() == n * n
    R = as_complex(cell.matrix())
    np.testing.assert_allclose(R.conj().T @ R, np.eye(n), atol=1e-12)

    def matrix(free: Tensor) -> Tensor:
        return torch.func.functional_call(Matrix(cell), {"cell.weight_hh": free}, ())

    J = torch.autograd.functional.jacobian(matrix, cell.weight_hh.detach()).flatten(0, 1)
    assert np.linalg.matrix_rank(J.numpy(), tol=1e-8) == n * n


class Matrix(torch.nn.Module):
    """A cell's matrix as a function of its parameters."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self) -> Tensor:
        return self.cell.matrix()


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_the_capacity_says_how_many_parameters_a_unitary_matrix_has(capacity: int) -> None:
    cell = autapse.cells.OrthogonalRNN(3, 6, field="complex", parametrization="rotations", capacity=capacity)
    pairs = sum(3 - layer % 2 for layer in range(capacity))
    assert cell.weight_hh.numel() == 2 * pairs + 6


def test_a_unitary_network_keeps_moduli_without_input() -> None:
    """With b = 0 modReLU is the identity, so that the norm of the state is kept over a thousand steps."""
    layer = autapse.OrthogonalRNN(3, 6, field="complex", **FLOAT64)
    torch.nn.init.normal_(layer.cells["l0"].weight_hh)
    h0 = torch.randn(1, 4, 12, **FLOAT64)
    _, h_n = layer(torch.zeros(1000, 4, 3, **FLOAT64), h0)
    close(h_n.norm(dim=2), h0.norm(dim=2))


@pytest.mark.parametrize("threshold", [-0.3, 0.0, 0.4])
def test_modrelu_keeps_phases_and_shifts_moduli(threshold: float) -> None:
    cell = autapse.cells.OrthogonalRNN(2, 5, field="complex", **FLOAT64)
    with torch.no_grad():
        cell.weight_ih.normal_()
        cell.bias_h.fill_(threshold)
    x = torch.randn(2, **FLOAT64)
    a = (cell.weight_ih @ x).detach().numpy()
    z = a[:5] + 1j * a[5:]
    expected = np.maximum(np.abs(z) + threshold, 0) * np.exp(1j * np.angle(z))
    np.testing.assert_allclose(cell(x).detach().numpy(), np.concatenate([expected.real, expected.imag]), atol=1e-12)


def test_a_state_of_zeros_has_finite_gradients() -> None:
    for name, options in (("OrthogonalRNN", {"field": "complex"}), ("KRU", {}), ("GORU", {})):
        layer = getattr(autapse, name)(3, 4, **options, **FLOAT64)
        output, _ = layer(torch.zeros(5, 2, 3, **FLOAT64))
        assert not output.any()
        output.sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("kind", ["rotations", "exp", "cayley"])
def test_gorus_candidate_is_orthogonal(kind: str) -> None:
    cell = autapse.cells.GORU(3, 6, parametrization=kind, **FLOAT64)
    torch.nn.init.normal_(cell.weight_hh)
    close(cell.matrix() @ cell.matrix().T, torch.eye(6, **FLOAT64))


def test_goru_with_open_gates_is_the_orthogonal_network() -> None:
    """r = 1 and z = 0 leave h' = modReLU(W·x + R·h; b)."""
    goru = autapse.cells.GORU(3, 6, **FLOAT64)
    plain = autapse.cells.OrthogonalRNN(3, 6, parametrization="rotations", **FLOAT64)
    with torch.no_grad():
        goru.weight_gates.zero_()
        goru.weight_ih[:12] = 0
        goru.bias_h[:6], goru.bias_h[6:] = 50, -50
        goru.bias_n.normal_()
        plain.weight_ih.copy_(goru.weight_ih[12:])
        plain.weight_hh.copy_(goru.weight_hh)
        plain.bias_h.copy_(goru.bias_n)
    x, h = torch.randn(4, 3, **FLOAT64), torch.randn(4, 6, **FLOAT64)
    close(goru(x, h), plain(x, h))


def test_krus_matrix_is_the_kronecker_product_of_its_factors() -> None:
    cell = autapse.cells.KRU(3, 12, factors=(3, 2, 2), **FLOAT64)
    assert cell.weight_hh.shape == (2, 9 + 4 + 4)
    torch.nn.init.normal_(cell.weight_hh)
    a, b, c = (as_complex(block) for block in cell.recurrent_matrices())
    np.testing.assert_allclose(as_complex(cell.matrix()), np.kron(np.kron(a, b), c), atol=1e-12)


@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize("size", [1, 8, 12, 7])
def test_kru_starts_unitary(field: str, size: int) -> None:
    cell = autapse.cells.KRU(3, size, field=field, **FLOAT64)
    K = cell.matrix()
    close(K @ K.T, torch.eye(len(K), **FLOAT64))
    assert [len(block) for block in cell.recurrent_matrices()] == [
        f * (1 if field == "real" else 2) for f in prime_factors(size)
    ]
    if size > 1:
        assert not torch.equal(K, autapse.cells.KRU(3, size, field=field, **FLOAT64).matrix())  # random


def test_krus_factors_have_the_penalty() -> None:
    model = Classifier("kru", 3, 2, hidden_size=8)
    assert orthogonality(model).item() < 1e-8
    with torch.no_grad():
        model.layer.cells["l0"].weight_hh.mul_(2)
    # each factor is 2U: K*K − I = 3I, as a real 4 × 4 matrix
    assert orthogonality(model).item() == pytest.approx(3 * 4 * 9, rel=1e-5)
    loop = Loop(small_config(cell="kru", steps=3, orthogonality=0.1))
    loop.run()


def test_the_chaos_free_network_decays_without_input() -> None:
    """Laurent and von Brecht, lemma 1: |h_t| decreases for every unit; the bound is that of h ← σ(b_θ + …)·tanh(h)."""
    layer = autapse.CFN(3, 6, **FLOAT64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=3)
    h0 = 10 * torch.randn(1, 5, 6, **FLOAT64)
    output, _ = layer(torch.zeros(300, 5, 3, **FLOAT64), h0)
    sizes = torch.cat([h0, output]).abs()
    assert (sizes[1:] <= sizes[:-1]).all()
    assert (output * h0 >= 0).all()
    assert sizes[-1].max() < 0.5 < sizes[0].max()


def test_hidden_and_outputs_of_complex_layers() -> None:
    layer = autapse.OrthogonalRNN(3, 5, num_layers=2, bidirectional=True, field="complex")
    output, h_n = layer(torch.randn(7, 4, 3), lengths=[7, 1, 0, 3])
    assert output.shape == (7, 4, 20)
    assert h_n.shape == (4, 4, 10)
    assert layer.output_size == 20
    assert repr(layer) == "OrthogonalRNN(3, 5, num_layers=2, bidirectional=True, field='complex')"


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["OrthogonalRNN", "GRU", "CFN"])
def test_complex_weights_in_a_real_layer(name: str) -> None:
    make = getattr(autapse, name)
    rule = "must be real: complex units are pairs of real numbers; got torch.complex64"
    with pytest.raises(checks.InputError, match=f"dtype {rule}"):
        make(3, 4, dtype=torch.complex64)
    layer = make(3, 4)
    given = {key: value.to(torch.complex64) for key, value in layer.state_dict().items()}
    first = next(iter(given))
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    with pytest.raises(checks.InputError, match=f"{first} {rule}"):
        layer.load_state_dict(given)
    with pytest.raises(checks.InputError, match=rule):  # also inside of a model
        torch.nn.ModuleList([layer]).load_state_dict({f"0.{key}": value for key, value in given.items()})
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())
    with pytest.warns(UserWarning, match="Complex modules"):
        layer.to(torch.complex64)
    with pytest.raises(checks.InputError, match=rule):
        layer(torch.zeros(2, 1, 3, dtype=torch.complex64))


def test_complex_numbers_are_refused_by_a_cell() -> None:
    cell, real, other = autapse.cells.GRU(3, 4), torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.complex64)
    with pytest.raises(checks.InputError, match="x_t must be real"):
        cell(real.to(torch.complex64))
    with pytest.raises(checks.InputError, match=r"state\[0\] must be real"):
        cell(real, other)


def test_weights_of_the_other_field_are_refused() -> None:
    real, other = autapse.OrthogonalRNN(3, 4), autapse.OrthogonalRNN(3, 4, field="complex")
    with pytest.raises(checks.InputError, match=r'must have 4 rows for field="real"; got \(8, 3\)'):
        real.load_state_dict(other.state_dict())
    with pytest.raises(checks.InputError, match=r'must have 8 rows for field="complex"; got \(4, 3\)'):
        other.load_state_dict(real.state_dict())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("OrthogonalRNN", {"field": "quaternion"}, "field must be one of real, complex; got 'quaternion'"),
        ("KRU", {"field": 1}, "field must be one of real, complex; got 1"),
        ("KRU", {"factors": (2, 3)}, r"factors must have the product hidden_size = 4; got \(2, 3\)"),
        ("KRU", {"factors": (4, 0)}, "factors must be an integer of at least 1; got 0"),
        ("KRU", {"factors": 2.5}, "factors must be a size, or several; got 2.5"),
        ("KRU", {"factors": "22"}, "factors must be a size, or several; got '22'"),
        ("KRU", {"nonlinearity": "modReLU"}, "nonlinearity must be one of modrelu, tanh"),
        ("GORU", {"capacity": 0}, "capacity must be an integer of at least 1; got 0"),
        ("GORU", {"capacity": 2, "parametrization": "exp"}, 'capacity must be used with parametrization="rotations"'),
        ("GORU", {"parametrization": "qr"}, "parametrization must be one of exp, cayley, rotations; got 'qr'"),
        ("Antisymmetric", {"integrator": "leapfrog"}, "integrator must be one of euler, heun, rk4, splitting"),
        ("Antisymmetric", {"integrator": "splitting", "structured": False}, "structured must be True with integrator"),
        ("Antisymmetric", {"gated": True, "nonlinearity": "relu"}, 'nonlinearity must be "tanh" with gated=True'),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(checks.InputError, match=message):
        getattr(autapse, name)(3, 4, **options)
