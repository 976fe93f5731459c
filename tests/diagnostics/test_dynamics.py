"""Differential equations, equilibria, fixed points, portraits and loss surfaces against closed forms and SciPy."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, linalg, optimize
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.diagnostics.attractors import fixed_points
from autapse.diagnostics.contraction import contraction
from autapse.diagnostics.equilibria import alignment, inner_residuals, learned_rates, phi_curve
from autapse.diagnostics.odes import convergence_order, sensitivity
from autapse.diagnostics.phase import phase_portrait
from autapse.diagnostics.surfaces import gradient_path, loss_surface

D, H, T, B = 3, 5, 8, 2
DOUBLE: Any = {"dtype": torch.float64}


def draw(*shape: int) -> Tensor:
    return torch.randn(*(shape or (T, B)), D, dtype=torch.float64)


# Differential equations -----------------------------------------------------------------------------------------------


def test_sensitivity_against_products_and_the_exponential_of_scipy() -> None:
    layer, x = autapse.Antisymmetric(D, H, step=0.2, diffusion=0.1, **DOUBLE), draw()
    found = sensitivity(layer, x, [8, 5])
    cell = layer.cells["l0"]
    M, V, b = cell.matrix().detach().numpy(), cell.weight_ih.detach().numpy(), cell.bias_h.detach().numpy()
    for n, steps in ((0, 8), (1, 5)):
        h, A = np.zeros(H), np.eye(H)
        for t in range(steps):
            a = np.tanh(M @ h + V @ x[t, n].numpy() + b)
            J = np.diag(1 - a**2) @ M  # equation 9
            if t == 0:
                first = J
            h, A = h + 0.2 * a, (np.eye(H) + 0.2 * J) @ A
            exponential = linalg.expm(first * 0.2 * (t + 1))
            assert found.measured[t + 1, n] == pytest.approx(np.linalg.norm(A) / math.sqrt(H))
            assert found.exponential[t + 1, n] == pytest.approx(np.linalg.norm(exponential) / math.sqrt(H))
            expected = np.linalg.norm(A - exponential) / np.linalg.norm(exponential)
            assert found.error[t + 1, n] == pytest.approx(expected)
        np.testing.assert_allclose(np.sort(found.eigenvalues[n].real), np.sort(np.linalg.eigvals(first).real))
    assert np.isnan(found.error[:, 1]).tolist() == [False] * 6 + [True] * 3
    np.testing.assert_allclose(found.times, 0.2 * np.arange(9))


@pytest.mark.parametrize(
    ("cell", "order"),
    [
        (autapse.cells.Antisymmetric(D, H, step=0.1, **DOUBLE), 1),
        (autapse.cells.Antisymmetric(D, H, step=0.1, gated=True, **DOUBLE), 1),
        (autapse.cells.Antisymmetric(D, H, step=0.1, integrator="heun", **DOUBLE), 2),
        (autapse.cells.Antisymmetric(D, H, step=0.1, integrator="heun", gated=True, **DOUBLE), 2),
        (autapse.cells.Antisymmetric(D, H, step=0.1, integrator="splitting", diffusion=0.0, **DOUBLE), 2),
        (autapse.cells.Antisymmetric(D, H, step=0.1, integrator="rk4", **DOUBLE), 4),
        (autapse.cells.ImplicitMidpoint(D, H, step=0.1, **DOUBLE), 2),
    ],
    ids=["euler", "gated euler", "heun", "gated heun", "splitting", "rk4", "midpoint"],
)
def test_the_order_of_each_integrator(cell: Any, order: int) -> None:
    found = convergence_order(cell, draw(B), torch.randn(B, H), time=0.8, halvings=3)
    assert found.order == pytest.approx(order, abs=0.15)
    np.testing.assert_allclose(found.steps, [0.1, 0.05, 0.025, 0.0125])
    assert (np.diff(found.errors, axis=0) < 0).all()
    assert cell.step_size == 0.1, "the cell is not changed"


def test_the_reference_of_the_order_is_that_of_scipy() -> None:
    cell, x = autapse.cells.Antisymmetric(D, H, step=0.5, **DOUBLE), draw(1)
    M, u = cell.matrix().detach().numpy(), cell.drive(x).detach().numpy()[0]
    exact = integrate.solve_ivp(lambda _, y: np.tanh(M @ y + u), (0, 1), np.zeros(H), rtol=1e-12, atol=1e-13).y[:, -1]
    h = 0.5 * np.tanh(u)
    h = h + 0.5 * np.tanh(M @ h + u)
    assert convergence_order(cell, x, time=1.0, halvings=1).errors[0, 0] == pytest.approx(np.linalg.norm(h - exact))


# Equilibria -----------------------------------------------------------------------------------------------------------


def test_phi_by_scipy() -> None:
    alphas = [-1.5, -0.1, 0.02, 0.3, 2.0]
    curve = phi_curve(alphas)
    for alpha, value, slope in zip(alphas, curve.value, curve.slope, strict=True):
        sign, size = math.copysign(1, alpha), abs(alpha)
        root = optimize.brentq(lambda h, size=size: h - math.tanh(h + size), 1e-9, 1, xtol=1e-15)
        assert value == pytest.approx(sign * root)
        upper, lower = phi_curve([alpha + 1e-6]).value[0], phi_curve([alpha - 1e-6]).value[0]
        assert slope == pytest.approx((upper - lower) / 2e-6, rel=1e-4)
    assert phi_curve([0.0]).slope[0] == math.inf
    assert phi_curve().alpha.shape == (401,)


def test_what_U_has_learned() -> None:
    layer = autapse.ERNN(D, 3, **DOUBLE)
    U = torch.tensor([[0.5, -0.25, 0.0], [1.0, -0.5, 0.25], [0.0, 0.0, 2.0]], dtype=torch.float64)
    with torch.no_grad():
        layer.cells["l0"].weight_align.copy_(U)
    found = alignment(layer)
    expected = np.linalg.eigvals(np.eye(3) + U.numpy())
    np.testing.assert_allclose(np.sort_complex(found.eigenvalues), np.sort_complex(expected))
    np.testing.assert_allclose(found.singular_values, np.linalg.svd(np.eye(3) + U.numpy(), compute_uv=False))
    assert found.excitation.tolist() == [0.5, 1.25, 2.0]
    assert found.inhibition.tolist() == [-0.25, -0.5, 0.0]
    assert found.self_feedback.tolist() == [0.5, -0.5, 2.0]


def test_inner_residuals_of_a_linear_rule() -> None:
    """z ← z + η·(a·z + c − z): the error shrinks by |1 − η + η·a| per inner step, in any norm."""
    slopes = torch.tensor([0.5, 0.5, 0.5, 0.5], dtype=torch.float64)
    rule = autapse.cells.EquilibriumLinear(D, 4, **DOUBLE)
    with torch.no_grad():
        rule.weight_align.copy_(slopes.diag())
    found = inner_residuals(rule, draw(), eta=0.6, iterations=5)
    np.testing.assert_allclose(found.ratio, 1 - 0.6 + 0.6 * 0.5)
    np.testing.assert_allclose(found.bound, 0.7)
    np.testing.assert_allclose(found.residual[1:], 0.7 * found.residual[:-1])
    assert found.residual.shape == (6, T, B)
    assert found.converged.all()


def test_inner_residuals_agree_with_the_contraction_and_the_bound() -> None:
    layer, x = autapse.ERNN(D, H, inner_steps=4, nonlinearity="tanh", **DOUBLE), draw()
    with torch.no_grad():
        layer.cells["l0"].rate.fill_(0.4)
    found, summary = inner_residuals(layer, x), contraction(layer, x)
    np.testing.assert_allclose(found.bound.max(0), summary.norm)
    np.testing.assert_allclose(found.residual[-1] / found.residual[0], summary.residual)
    assert found.converged.all()
    midpoint = autapse.ImplicitMidpoint(D, H, step=0.5, **DOUBLE)
    way = inner_residuals(midpoint, x, iterations=3)
    # f(z) ≈ f′(z*)·(z − z*) near the equilibrium, so Lemma 1's norm is the residual there.
    np.testing.assert_allclose(way.distance[-1], way.residual[-1], rtol=0.05)


def test_learned_rates_and_their_line() -> None:
    layer = autapse.ERNN(D, H, inner_steps=2, eta="per_step", max_length=6, **DOUBLE)
    steps = torch.arange(6, dtype=torch.float64)
    with torch.no_grad():
        layer.cells["l0"].rate.copy_(torch.stack([0.1 + 0.02 * steps, 0.3 - 0.01 * steps], dim=1))
    found = learned_rates(layer)
    np.testing.assert_allclose(found.slope, [0.02, -0.01])
    np.testing.assert_allclose(found.intercept, [0.1, 0.3])
    single = learned_rates(autapse.ERNN(D, H))
    assert (single.eta.shape, single.slope.tolist()) == ((1, 1), [0.0])


# Fixed points ---------------------------------------------------------------------------------------------------------


def test_fixed_points_of_one_unit_by_scipy() -> None:
    layer = autapse.RNN(1, 1, bias=False)
    with torch.no_grad():
        layer.weight_hh_l0.fill_(2.0)
        layer.weight_ih_l0.fill_(1.0)
    found = fixed_points(layer, torch.randn(50, 16, 1), at=torch.tensor([0.1]))
    brackets = ((-0.99, -0.5), (-0.5, 0.0), (0.5, 0.999))
    roots = [optimize.brentq(lambda h: h - math.tanh(2 * h + 0.1), *bracket) for bracket in brackets]
    order = np.argsort(found.points[:, 0])
    np.testing.assert_allclose(found.points[order, 0], roots, atol=1e-7)
    assert [found.kinds[n] for n in order] == ["attractor", "repeller", "attractor"]
    np.testing.assert_allclose(found.eigenvalues[order, 0].real, [2 * (1 - root**2) for root in roots], atol=1e-6)
    assert found.fixed.all()
    assert found.counts.sum() == found.starts == 128


def test_fixed_points_of_a_linear_network_and_of_an_lstm() -> None:
    matrix = torch.diag(torch.tensor([0.5, 1.5, 2.0], dtype=torch.float64))
    layer = autapse.RNN(D, 3, nonlinearity="identity", bias=False, **DOUBLE)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(matrix)
    at = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    found = fixed_points(layer, draw(), at=at, starts=10)
    expected = torch.linalg.solve(torch.eye(3, dtype=torch.float64) - matrix, layer.weight_ih_l0 @ at).detach()
    np.testing.assert_allclose(found.points, expected[None], atol=1e-8)
    assert found.kinds == ["saddle"]
    lstm, x = autapse.LSTM(D, H, **DOUBLE), draw(30, 4)
    point = fixed_points(lstm, x, starts=5).points[0]
    constant = x.mean((0, 1)).expand(1, 1, D)
    h, c = (torch.from_numpy(part).view(1, 1, H) for part in (point[:H], point[H:]))
    _, (after_h, after_c) = lstm(constant, (h, c))
    torch.testing.assert_close((after_h, after_c), (h, c), rtol=1e-8, atol=1e-9)


def test_a_slow_point() -> None:
    """h' = h + 0.1·(h² + 10⁻⁴) has no fixed point, but it is slowest at h = 0."""

    class Ghost(autapse.Cell):
        def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
            return (state[0] + 0.1 * (state[0].square() + 1e-4) + 0 * u,)

    found = fixed_points(autapse.Recurrent(Ghost, 1, 1), torch.randn(5, 2, 1), slow=1e-4, apart=0.1, starts=4)
    assert len(found.points) == 1
    assert not found.fixed.any()
    assert abs(found.points[0, 0]) < 0.02
    assert len(fixed_points(autapse.Recurrent(Ghost, 1, 1), torch.randn(5, 2, 1), slow=1e-7, starts=4).points) == 0


@pytest.mark.fixed_seed("with other weights, every state that Newton's method tries may have an equilibrium")
def test_a_start_from_which_an_equilibrium_has_no_solution_is_no_point_and_no_warning() -> None:
    layer = autapse.ImplicitMidpoint(D, 8, step=1.0)
    for parameter in layer.parameters():
        parameter.data.mul_(4)
    found = fixed_points(layer, torch.randn(10, 4, D), starts=16)  # warnings are errors
    assert found.counts.sum() < found.starts
    for point in torch.from_numpy(found.points[found.fixed]):
        after = layer.double()(torch.from_numpy(found.at).expand(1, 1, -1), point[None, None])[1]
        np.testing.assert_allclose(after[0, 0].detach(), point, atol=1e-6)


# Phase portraits ------------------------------------------------------------------------------------------------------


def test_the_papers_four_systems() -> None:
    """AntisymmetricRNN paper, Fig. 1 (e)–(h): outwards, inwards, slowly outwards, and nearly at one distance."""
    systems = {
        "positive": [[2.0, -2.0], [0.0, 2.0]],
        "negative": [[-2.0, 2.0], [0.0, -2.0]],
        "imaginary": [[0.0, -2.0], [2.0, 0.0]],
        "diffusion": [[-0.15, -2.0], [2.0, -0.15]],
    }
    growth = {}
    for name, matrix in systems.items():
        layer = autapse.Antisymmetric(1, 2, step=0.1, diffusion=0.0, structured=False, bias=False, **DOUBLE)
        with torch.no_grad():
            layer.cells["l0"].weight_hh.copy_(torch.tensor(matrix))
        portrait = phase_portrait(layer)
        np.testing.assert_allclose(portrait.arrows, 0.1 * np.tanh(portrait.grid @ np.array(matrix).T))
        h = np.array([0.5, -0.75])
        for t in range(3):
            np.testing.assert_allclose(portrait.paths[t, 2], h)
            h = h + 0.1 * np.tanh(np.array(matrix) @ h)
        growth[name] = np.linalg.norm(portrait.paths[-1], axis=1) / np.linalg.norm(portrait.paths[0], axis=1)
    assert (growth["positive"] > 2).all()
    assert (growth["negative"] < 0.1).all()
    assert (growth["imaginary"] > 1.05).all()
    assert (growth["diffusion"] < growth["imaginary"]).all()


def test_the_plane_of_principal_components() -> None:
    layer, x = autapse.GRU(D, H, **DOUBLE), draw(30, 4)
    portrait = phase_portrait(layer, x, [30, 30, 20, 0], steps=5, grid=3)
    states = np.concatenate([layer(x)[0].detach().numpy()[:n, b] for b, n in enumerate((30, 30, 20))])
    variances = np.sort(np.linalg.eigvalsh(np.cov(states.T)))[::-1]
    np.testing.assert_allclose(portrait.explained, variances[:2] / variances.sum())
    assert portrait.paths.shape == (6, 4, 2)
    assert portrait.axes == ("component 1", "component 2")
    width = np.abs(phase_portrait(layer, x, steps=1).grid).max()  # that of the states along x
    away = 2 * layer(x)[0].detach()[-1]
    seen = phase_portrait(layer, x, starts=away + 5 * width)
    assert np.abs(seen.grid).max() == pytest.approx(min(3 * width, np.abs(seen.paths).max()))


# Loss surfaces --------------------------------------------------------------------------------------------------------


def quadratic() -> Any:
    layer = autapse.RNN(1, 1, nonlinearity="identity", bias=False, **DOUBLE)
    x = torch.tensor([[[1.0]], [[0.0]]], dtype=torch.float64)
    return layer, lambda layer: (layer(x)[1] - 1).square().sum()  # (w·v − 1)²


ENTRIES: Any = (("weight_ih_l0", 0, 0), ("weight_hh_l0", 0, 0))


def test_the_surface_and_the_path_of_a_closed_form() -> None:
    layer, loss = quadratic()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    surface = loss_surface(layer, loss, *ENTRIES, first_range=(-2, 2), second_range=(0, 3), points=7)
    v, w = np.meshgrid(surface.first, surface.second)
    np.testing.assert_allclose(surface.loss, (w * v - 1) ** 2, atol=1e-12)
    assert surface.names == ("weight_ih_l0[0, 0]", "weight_hh_l0[0, 0]")
    for clip in (None, 0.5):
        path = gradient_path(layer, loss, *ENTRIES, start=(2.0, 1.5), rate=0.05, steps=10, clip=clip)
        point = np.array([2.0, 1.5])
        for n in range(10):
            np.testing.assert_allclose(path.points[n], point)
            gradient = 2 * (point.prod() - 1) * point[::-1]
            assert path.gradient[n] == pytest.approx(np.linalg.norm(gradient))
            assert path.loss[n] == pytest.approx((point.prod() - 1) ** 2)
            if clip is not None:
                gradient = gradient * min(1, clip / np.linalg.norm(gradient))
            point = point - 0.05 * gradient
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sensitivity(autapse.GRU(D, H, **DOUBLE), draw()), "network must be a step of a differential equation"),
        (lambda: convergence_order(autapse.cells.GRU(D, H), draw(1)), "network must be a step of a differential"),
        (lambda: convergence_order(autapse.cells.Antisymmetric(D, H), torch.ones(1, 7)), "x must have shape (B, inp"),
        (lambda: alignment(autapse.GRU(D, H)), "network must have an alignment matrix U"),
        (lambda: learned_rates(autapse.EquilibriumTanh(D, H)), "network must have learned inner steps, as ERNN"),
        (lambda: fixed_points(autapse.GRU(D, H, **DOUBLE), draw(), at=torch.zeros(9)), "at must have one value per"),
        (lambda: phase_portrait(autapse.GRU(D, H)), "x must be given for a state of 5 units"),
        (lambda: phase_portrait(autapse.RNN(1, 2), starts=[[0.0]]), "starts must have shape (N, S) with S = 2"),
        (lambda: loss_surface(*quadratic(), ("weight",), ENTRIES[1]), "first must be one of weight_ih_l0, weight_hh"),
        (lambda: loss_surface(*quadratic(), ("weight_ih_l0", 1, 0), ENTRIES[1]), "first must have one index per"),
        (
            lambda: loss_surface(quadratic()[0], lambda layer: 3, *ENTRIES),
            "loss must return a single number; got 'int'",
        ),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()
