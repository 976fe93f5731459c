"""Other steps of the AntisymmetricRNN's differential equation: order, stability, and what they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import torch
from torch import Tensor

import autapse

FLOAT64: dict[str, Any] = {"dtype": torch.float64}


def cell_of(integrator: str, step: float, **options: Any) -> Any:
    cell = autapse.cells.Antisymmetric(2, 6, integrator=integrator, step=step, **FLOAT64, **options)
    torch.nn.init.normal_(cell.weight_hh, std=0.7)
    return cell


def after(cell: Any, h: Tensor, x: Tensor, steps: int) -> Tensor:
    with torch.no_grad():
        u, weights = cell.drive(x), cell.prepare()
        for t in range(steps):
            (h,) = cell.step(u, (h,), weights, t)
    return h


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("heun", 2), ("rk4", 4), ("splitting", 2)])
def test_the_order_of_the_error_against_scipys_solution(integrator: str, order: int, gated: bool) -> None:
    """Half the step has 1/2^order of the error at time 2."""
    diffusion = 0.0 if integrator == "splitting" else 0.3
    first = cell_of(integrator, 0.1, gated=gated, diffusion=diffusion)
    h, x = torch.randn(1, 6, **FLOAT64), torch.randn(1, 2, **FLOAT64)
    M, v = first.matrix().detach().numpy(), first.drive(x)[0].detach().numpy()

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        if gated:
            return np.tanh(M @ y + v[6:]) / (1 + np.exp(-(M @ y + v[:6])))
        return np.tanh(M @ y + v)

    exact = scipy.integrate.solve_ivp(rate, (0, 2), h[0].numpy(), "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    errors = []
    for steps in (20, 40, 80):
        cell = cell_of(integrator, 2 / steps, gated=gated, diffusion=diffusion)
        cell.load_state_dict(first.state_dict())
        errors.append(np.linalg.norm(after(cell, h, x, steps)[0].numpy() - exact))
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] > 1e-12, "too exact to measure the order"
    np.testing.assert_allclose(rates[-1], order, atol=0.25)


def test_the_splitting_keeps_a_quadratic_energy_over_ten_thousand_steps() -> None:
    step = 0.4
    cell = cell_of("splitting", step, diffusion=0.0, nonlinearity="identity", bias=False)
    torch.nn.init.normal_(cell.weight_hh, std=0.5)
    K = cell.weight_hh.detach()
    assert step * torch.linalg.matrix_norm(K, 2) < 2, "else the energy is not positive"
    h = torch.randn(3, 6, **FLOAT64)

    def energy(h: Tensor) -> Tensor:
        p, q = h[:, :3], h[:, 3:]
        return p.square().sum(1) + q.square().sum(1) - step**2 / 4 * (q @ K.T).square().sum(1)

    end = after(cell, h, torch.zeros(3, 2, **FLOAT64), 10_000)
    assert (end - h).norm() > 0.1, "it moves"
    torch.testing.assert_close(energy(end), energy(h), rtol=1e-11, atol=0)
    euler = cell_of("euler", step, diffusion=0.0, nonlinearity="identity", bias=False)
    grown = after(euler, h, torch.zeros(3, 2, **FLOAT64), 300)
    assert (grown.norm(dim=1) > 100 * h.norm(dim=1)).all()  # forward Euler does not


def test_the_splitting_does_not_drift_with_tanh() -> None:
    """The energy Σ log cosh of the equation itself oscillates around its value, and its mean stays."""
    cell = cell_of("splitting", 0.2, diffusion=0.0)
    h, x = torch.randn(3, 6, **FLOAT64), torch.randn(3, 2, **FLOAT64)
    M, u = cell.matrix().detach(), cell.drive(x).detach()

    def energy(h: Tensor) -> Tensor:
        return torch.log(torch.cosh(h @ M.T + u)).sum(1)

    start = energy(h)
    late = [energy(h := after(cell, h, x, 10)) for _ in range(300)]
    early_mean, late_mean = torch.stack(late[:150]).mean(0), torch.stack(late[150:]).mean(0)
    assert ((torch.stack(late) - start).abs() < 0.1 * start + 0.05).all()
    torch.testing.assert_close(late_mean, early_mean, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("integrator", ["heun", "rk4", "splitting"])
def test_the_growth_of_a_mode_at_the_origin(integrator: str) -> None:
    """Eigenvalues of the Jacobian, against the stability function of each method, for eigenvalues ±iμ."""
    step, mu = 0.5, 1.3
    cell = autapse.cells.Antisymmetric(1, 2, integrator=integrator, step=step, diffusion=0.0, **FLOAT64)
    with torch.no_grad():
        cell.weight_hh.fill_(mu)
    modulus = torch.linalg.eigvals(cell.jacobian(torch.zeros(1, **FLOAT64))).abs().max().item()
    z = 1j * step * mu
    expected = {"heun": abs(1 + z + z**2 / 2), "rk4": abs(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24), "splitting": 1.0}
    assert modulus == pytest.approx(expected[integrator], abs=1e-12)


def test_the_halves_of_a_splitting_read_only_each_other() -> None:
    cell = autapse.cells.Antisymmetric(2, 7, integrator="splitting", diffusion=0.3, **FLOAT64)
    assert cell.weight_hh.shape == (4, 3)
    M = cell.matrix().detach() + 0.3 * torch.eye(7, **FLOAT64)
    assert torch.equal(M, -M.T)
    assert not M[:4, :4].any()
    assert not M[4:, 4:].any()
    assert torch.equal(M[:4, 4:], cell.weight_hh.detach())
