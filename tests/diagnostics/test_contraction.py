"""Theorem 1 of the ERNN paper on data: the norms against torch.linalg, the rates against the iteration itself."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.diagnostics import alignment, convergence_order, inner_residuals, learned_rates
from autapse.diagnostics.contraction import contraction
from tolerance import close

D, H, T, B = 3, 4, 5, 2


def linear(eigenvalues: list[float]) -> Any:
    rule = autapse.cells.EquilibriumLinear(D, H, dtype=torch.float64)
    Q, _ = torch.linalg.qr(torch.randn(H, H, dtype=torch.float64))
    with torch.no_grad():
        rule.weight_align.copy_(Q @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ Q.T)
    return rule


def draw() -> Tensor:
    return torch.randn(T, B, D, dtype=torch.float64)


@pytest.mark.parametrize(
    ("eigenvalues", "eta", "norm"),
    [
        ([0.5, 0.2, 0.0, -0.8], 1.0, 0.8),
        ([0.5, 0.2, 0.0, -3.0], 1.0, 3.0),  # φ does not contract,
        ([0.5, 0.2, 0.0, -3.0], 0.3, 0.85),  # but shorter steps do
        ([2.0, 3.0, 1.5, 4.0], -0.3, 0.85),  # and here only negative ones
        ([2.0, 3.0, 1.5, 4.0], 0.1, 1.3),
        ([0.5, 2.0, 0.0, 0.0], 0.1, 1.1),  # and here none
        ([0.5, 2.0, 0.0, 0.0], -0.1, 1.1),
    ],
)
def test_the_norm_of_a_linear_rule_is_known(eigenvalues: list[float], eta: float, norm: float) -> None:
    """f′ = U − I, so I + η·f′ has the eigenvalues 1 + η(λ − 1)."""
    found = contraction(linear(eigenvalues), draw(), eta=eta)
    close(found.norm, torch.full((T, B), norm, dtype=torch.float64))
    close(found.settled, found.norm)
    assert bool(found.holds.all()) == bool(found.holds.any()) == (norm < 1)
    assert (found.ratio <= norm + 1e-9).all()
    if norm < 1:
        assert (found.residual < 1).all()
    assert found.converged.all()


def test_what_is_measured_is_what_the_iteration_does() -> None:
    rule = linear([0.5, 0.2, 0.0, -3.0])
    found = contraction(rule, draw(), eta=1.0, iterations=30)
    torch.testing.assert_close(found.ratio, torch.full_like(found.ratio, 3.0), rtol=1e-6, atol=0)  # the power method
    assert (found.residual > 1e10).all()


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_nonlinear_rule_against_dense_jacobians(batch_first: bool) -> None:
    layer = autapse.ImplicitMidpoint(D, H, step=1.5, dtype=torch.float64, batch_first=batch_first)
    rule, x, h0 = layer.cells["l0"], draw(), torch.randn(1, B, H, dtype=torch.float64)
    eta, steps = 0.6, 3
    found = contraction(layer, x.transpose(0, 1) if batch_first else x, h0, eta=eta, iterations=steps)
    states = layer(x.transpose(0, 1) if batch_first else x, h0)[0].detach()
    states = states.transpose(0, 1) if batch_first else states
    M = rule.prepare().detach()
    for t in range(T):
        for b in range(B):
            before = (states[t - 1] if t else h0[0])[b]
            u = rule.drive(x[t, b]).detach()
            f = lambda z, before=before, u=u: before + 1.5 * torch.tanh(M @ (z + before) / 2 + u) - z
            z, norms, sizes = before, [], []
            for _ in range(steps):
                J = torch.autograd.functional.jacobian(f, z)
                norms.append(torch.linalg.svdvals(torch.eye(H) + eta * J).max())
                sizes.append(f(z).norm())
                z = z + eta * f(z)
            sizes.append(f(z).norm())
            close(found.norm[t, b], torch.stack(norms).max())
            close(found.ratio[t, b], max(sizes[k + 1] / sizes[k] for k in range(steps)))
            J = torch.autograd.functional.jacobian(f, states[t, b])
            torch.testing.assert_close(found.settled[t, b], torch.linalg.svdvals(torch.eye(H) + eta * J).max())


def test_the_tanh_rule_contracts_but_at_its_singular_point() -> None:
    """I + f′ is 1 − tanh², which is 1 where its argument is 0 and only there."""
    rule = autapse.cells.EquilibriumTanh(1, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        rule.weight_ih.fill_(1)
    x = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
    found = contraction(rule, x)
    assert found.holds.tolist() == [[True, False]]
    assert found.norm[0, 1] == 1.0
    assert "at 1 of 2 steps" in found.words()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: contraction(autapse.GRU(D, H), draw()),
            "rule must be an EquilibriumRule or ERNN, or a layer of one; got 'GRU'",
        ),
        (
            lambda: contraction(autapse.EquilibriumTanh(D, H, num_layers=2), draw()),
            "rule must be a layer of one rule; got '2 cells'. Pass one of its cells",
        ),
        (lambda: contraction(autapse.cells.EquilibriumTanh(7, H), draw()), "with input_size = 7; got (5, 2, 3)"),
        (lambda: contraction(linear([0.0] * H), draw(), iterations=0), "iterations must be an integer of at least 1"),
        (lambda: contraction(linear([0.0] * H), draw(), torch.zeros(9, H)), "h0 must have shape (B, H) = (2, 4)"),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()


def test_models_and_sequences_of_different_length() -> None:
    """The same numbers as for the layer of the model, and for the short sequence alone."""
    model = autapse.models.Classifier("ernn:inner_steps=2", D, 3, hidden_size=H).double()
    x = draw().transpose(0, 1)
    found, whole = contraction(model, x, lengths=[T, 2]), contraction(model.layer, x)
    alone = contraction(model.layer, x[1:, :2])
    close(found.norm[:, 0], whole.norm[:, 0])
    close(found.norm[:2, 1], alone.norm[:, 0])
    assert found.norm[2:, 1].isnan().all()
    assert f"of {T + 2} steps" in found.words()
    residuals = inner_residuals(model, x, lengths=[T, 2])
    assert np.isnan(residuals.residual[:, 2:, 1]).all()
    np.testing.assert_allclose(residuals.residual[:, :2, 1:], inner_residuals(model.layer, x[1:, :2]).residual)
    assert not residuals.converged[2:, 1].any()
    assert learned_rates(model).eta.shape == (1, 1)
    np.testing.assert_array_equal(alignment(model).singular_values, alignment(model.layer).singular_values)
    ode = autapse.models.Classifier("antisymmetric", D, 3, hidden_size=H)
    assert convergence_order(ode, torch.ones(1, D)).order == pytest.approx(1, abs=0.2)
