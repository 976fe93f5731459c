"""What the papers claim about their networks, as numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from networks import D, H
from tolerance import TOLERANCE, close

EDGE = 1e-9  # relative distance from a threshold at which float64 tells its two sides apart
ORTHOGONAL = {torch.float32: 1e-5, torch.float64: 1e-12}  # largest entry of RᵀR − I after training


# AntisymmetricRNN ---------------------------------------------------------------------------------------------------


def skew(n: int) -> Tensor:
    W = torch.randn(n, n, dtype=torch.float64)
    return W - W.T


@pytest.mark.parametrize("n", [2, 3, 8])
def test_eigenvalues_of_d_times_a_skew_matrix_are_imaginary_for_positive_d(n: int) -> None:
    for _ in range(10):
        eigenvalues = torch.linalg.eigvals(torch.diag(torch.rand(n, dtype=torch.float64) + 0.01) @ skew(n))
        assert eigenvalues.real.abs().max() < 1e-12 < eigenvalues.imag.abs().max()


def test_but_not_for_d_of_mixed_sign() -> None:
    """The smallest case has the eigenvalues ±1, as far from imaginary as can be."""
    eigenvalues = torch.linalg.eigvals(torch.diag(torch.tensor([1.0, -1])) @ torch.tensor([[0.0, 1], [-1, 0]]))
    assert sorted(eigenvalues.real.tolist()) == pytest.approx([-1, 1])
    worst = max(
        torch.linalg.eigvals(torch.diag(torch.randn(6, dtype=torch.float64)) @ skew(6)).real.max() for _ in range(20)
    )
    assert worst > 0.1


def antisymmetric(n: int, step: float, diffusion: float, **options: Any) -> Any:
    return autapse.cells.Antisymmetric(
        D, n, bias=False, step=step, diffusion=diffusion, dtype=torch.float64, init_scale=2.0, **options
    )


@pytest.mark.parametrize("n", [2, 5, 8])
def test_the_cells_jacobian_is_i_plus_epsilon_d_m(n: int) -> None:
    """Ungated, without diffusion, at any state: (J − I)/ε has imaginary eigenvalues, the paper's Proposition 3."""
    cell = antisymmetric(n, step=0.3, diffusion=0.0)
    x, h = torch.randn(D, dtype=torch.float64), torch.randn(n, dtype=torch.float64)
    eigenvalues = torch.linalg.eigvals((cell.jacobian(x, h) - torch.eye(n)) / 0.3)
    assert eigenvalues.real.abs().max() < 1e-12 < eigenvalues.imag.abs().max()


def moduli_at_origin(cell: Any) -> Tensor:
    return torch.linalg.eigvals(cell.jacobian(torch.zeros(D, dtype=torch.float64)).detach()).abs()


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("step", [0.01, 0.1, 1.0])
def test_without_diffusion_the_origin_is_unstable(n: int, step: float) -> None:
    cell = antisymmetric(n, step, diffusion=0.0)
    assert moduli_at_origin(cell).min() > 1


@pytest.mark.parametrize("step", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("mu", [0.3, 1.0, 1.9])
@pytest.mark.parametrize("side", [-1, 1])
def test_stable_at_the_origin_exactly_from_the_threshold_on(step: float, mu: float, side: int) -> None:
    """γ = ε(γ² + μ²)/2 has the root γ* = (1 − √(1 − ε²μ²))/ε; a little less is unstable, a little more is stable."""
    threshold = (1 - math.sqrt(1 - (step * mu) ** 2)) / step
    gamma = threshold * (1 + side * EDGE)
    cell = antisymmetric(2, step, gamma)
    with torch.no_grad():
        cell.weight_hh.fill_(mu)
    assert (gamma >= step * (gamma**2 + mu**2) / 2) == (side > 0)
    modulus = moduli_at_origin(cell)
    assert bool((modulus <= 1).all()) == (side > 0)
    assert (modulus - 1).abs().max() < 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_the_condition_decides_for_each_eigenvalue(seed: int) -> None:
    torch.manual_seed(seed)
    step, gamma = float(torch.rand(()) + 0.05), float(torch.rand(()))
    cell = antisymmetric(7, step, gamma)
    W = torch.zeros(7, 7, dtype=torch.float64)
    row, column = torch.triu_indices(7, 7, 1)
    W[row, column] = cell.weight_hh.detach()
    mu = torch.linalg.eigvals(W - W.T).imag
    stable = gamma >= step * (gamma**2 + mu**2) / 2
    assert bool(stable.any()), "the seeds should show stable eigenvalues"
    assert int((moduli_at_origin(cell) <= 1).sum()) == int(stable.sum())


def test_both_kinds_of_eigenvalue_occur_in_the_test_above() -> None:
    torch.manual_seed(0)
    modulus = torch.cat([moduli_at_origin(antisymmetric(7, 0.3, 0.2)) for _ in range(5)])
    assert (modulus > 1).any()
    assert (modulus < 1).any()


def test_the_papers_own_diffusion_is_not_quite_enough() -> None:
    """W_diff of section 4: eigenvalues −0.15 ± 2i; with ε = 0.1, |1 + ελ| = |0.985 + 0.2i|."""
    cell = antisymmetric(2, step=0.1, diffusion=0.15)
    with torch.no_grad():
        cell.weight_hh.fill_(2.0)
    close(moduli_at_origin(cell), torch.full((2,), math.hypot(0.985, 0.2), dtype=torch.float64))
    assert moduli_at_origin(cell)[0] == pytest.approx(1.005, abs=2e-4)


def test_gated_jacobian_has_a_diagonal_of_mixed_sign_so_real_parts_appear() -> None:
    """Proposition 3 does not carry over to the gate: D = diag(z(1 − z)·c + z(1 − c²)) has either sign."""
    torch.manual_seed(1)
    cell = antisymmetric(6, step=1.0, diffusion=0.0, gated=True)
    h = 3 * torch.randn(20, 6, dtype=torch.float64)
    x = 3 * torch.randn(20, D, dtype=torch.float64)
    eigenvalues = torch.linalg.eigvals(cell.jacobian(x, h).detach() - torch.eye(6))
    assert eigenvalues.real.abs().max() > 1e-2


# RIN, ERNN, FastRNN -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transitions", [1, 2, 3])
def test_rin_without_u_is_the_identity_for_positive_states(transitions: int) -> None:
    cell = autapse.cells.RIN(D, H, transitions=transitions, dtype=torch.float64)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
    h = torch.rand(5, H, dtype=torch.float64) + 0.1
    assert torch.equal(cell(torch.zeros(5, D, dtype=torch.float64), h), h)
    close(cell.jacobian(torch.zeros(5, D, dtype=torch.float64), h), torch.eye(H, dtype=torch.float64).expand(5, H, H))
    assert torch.equal(cell(torch.zeros(5, D, dtype=torch.float64), -h), torch.zeros_like(h))


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid"])
@pytest.mark.parametrize("eta", [0.01, 0.3, 0.9])
def test_ernn_without_u_is_fastrnn_with_alpha_eta_and_beta_one_minus_eta(nonlinearity: str, eta: float) -> None:
    ernn = autapse.ERNN(D, H, nonlinearity=nonlinearity, dtype=torch.float64)
    fast = autapse.FastRNN(D, H, nonlinearity=nonlinearity, dtype=torch.float64)
    e, f = ernn.cells["l0"], fast.cells["l0"]
    with torch.no_grad():
        e.weight_align.zero_()
        e.rate.fill_(eta)
        e.bias_h.normal_()
        for name in ("weight_ih", "weight_hh", "bias_h"):
            getattr(f, name).copy_(getattr(e, name))
        f.alpha.fill_(math.log(eta / (1 - eta)))
        f.beta.fill_(math.log((1 - eta) / eta))
    x = torch.randn(6, 2, D, dtype=torch.float64)
    close(ernn(x), fast(x))
    assert fast(x)[0].abs().max() > 1e-3


def test_exact_alignment_is_the_limit_of_the_inner_equation() -> None:
    """(I − U)⁻¹ is the fixed point of g = U·g + V·h + W·x + b, the constraint of the ERNN paper's equation 12."""
    cell = autapse.cells.ERNN(D, H, alignment="exact", nonlinearity="identity", dtype=torch.float64)
    with torch.no_grad():
        cell.weight_align.normal_(std=0.1)
        cell.bias_h.normal_()
        cell.rate.fill_(1.0)
    x, h = torch.randn(D, dtype=torch.float64), torch.randn(H, dtype=torch.float64)
    g = torch.zeros(H, dtype=torch.float64)
    for _ in range(200):
        g = cell.weight_align @ g + cell.weight_hh @ h + cell.weight_ih @ x + cell.bias_h
    close(cell(x, h), g)


# Orthogonal and spectral --------------------------------------------------------------------------------------------


def train(layer: Any, dtype: torch.dtype, steps: int = 100) -> float:
    """A hundred steps on remembering the first input; returns how far the recurrent parameters moved."""
    head = torch.nn.Linear(layer.output_size, 1, dtype=dtype)
    before = torch.cat([p.detach().clone().flatten() for p in layer.parameters()])
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.02)
    for _ in range(steps):
        x = torch.randn(5, 8, D, dtype=dtype)
        optimizer.zero_grad()
        loss = (head(layer(x)[1][-1]).squeeze(-1) - x[0, :, 0]).square().mean()
        loss.backward()
        optimizer.step()
    return float((torch.cat([p.detach().flatten() for p in layer.parameters()]) - before).abs().max())


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("options", [{}, {"nonlinearity": "tanh"}], ids=str)
@pytest.mark.parametrize("parametrization", ["exp", "cayley", "rotations"])
def test_orthogonal_after_a_hundred_training_steps(
    parametrization: str, options: dict[str, Any], dtype: torch.dtype
) -> None:
    layer = autapse.OrthogonalRNN(D, 9, parametrization=parametrization, dtype=dtype, **options)
    cell = layer.cells["l0"]
    before = cell.matrix().detach()
    train(layer, dtype)
    R = cell.matrix().detach()
    assert (R - before).abs().max() > 0.05, "training should have moved the matrix"
    for side in (R.T @ R, R @ R.T):
        assert (side - torch.eye(9, dtype=dtype)).abs().max() < ORTHOGONAL[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("radius", "reflections"), [(0.01, None), (0.3, None), (0.3, 3), (0.0, None)])
def test_singular_values_stay_in_their_band(radius: float, reflections: int | None, dtype: torch.dtype) -> None:
    layer = autapse.SpectralRNN(D, 9, radius=radius, reflections=reflections, dtype=dtype)
    assert train(layer, dtype) > 0.05
    with torch.no_grad():
        layer.cells["l0"].spectrum[:5] -= 100  # also where the sigmoid saturates
    sigma = torch.linalg.svdvals(layer.cells["l0"].matrix().detach())
    assert sigma.min() >= 1 - radius - ORTHOGONAL[dtype]
    assert sigma.max() <= 1 + radius + ORTHOGONAL[dtype]
    if radius:
        assert sigma.max() - sigma.min() > radius, "the band should be in use"


def test_singular_values_are_those_of_the_formula() -> None:
    cell = autapse.cells.SpectralRNN(D, H, radius=0.4, dtype=torch.float64)
    with torch.no_grad():
        cell.spectrum.normal_(std=3)
    by_formula = 1 + 0.8 * (1 / (1 + torch.exp(-cell.spectrum)) - 0.5)
    close(torch.linalg.svdvals(cell.matrix()), by_formula.sort(descending=True).values)


def test_modrelu_keeps_the_norm_where_it_does_nothing() -> None:
    """Without input and with b = 0, an orthogonal step is norm-preserving: gradients neither vanish nor explode."""
    layer = autapse.OrthogonalRNN(D, H, dtype=torch.float64)
    h0 = torch.randn(1, 2, H, dtype=torch.float64)
    _, h_n = layer(torch.zeros(500, 2, D, dtype=torch.float64), h0)
    close(h_n.norm(dim=-1), h0.norm(dim=-1))
