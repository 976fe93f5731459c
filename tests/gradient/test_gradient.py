"""Gradients of solutions: against finite differences, and against autograd through a converged iteration."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.gradient import Implicit, Phantom, Unrolled
from autapse.solve import GMRES, BiCGStab, BlockTridiagonal, NotConvergedWarning
from networks import perturb
from tolerance import close

D, H, T = 3, 4, 6
LENGTHS = [6, 3, 0]


def layer(kind: str = "ImplicitGRU", **keywords: Any) -> Any:
    torch.manual_seed(7)
    keywords = {"tolerance": 1e-13} | keywords
    return perturb(getattr(autapse, kind)(D, H, dtype=torch.float64, **keywords), 0.1)


def run(network: Any, x: Tensor, *parameters: Tensor) -> Any:
    names = [name for name, _ in network.named_parameters()]
    named = dict(zip(names, parameters, strict=True))
    output, h_n = torch.func.functional_call(network, named, (x,), {"lengths": LENGTHS})
    return output, *(h_n if isinstance(h_n, tuple) else (h_n,))


@pytest.mark.parametrize("boundary", ["zero", "learned"])
@pytest.mark.parametrize("stencil", [(-1, 1), (-2, -1, 1, 2), (-1, 2)], ids=str)
@pytest.mark.parametrize("kind", ["ImplicitGRU", "ImplicitLSTM"])
def test_finite_differences(kind: str, stencil: tuple[int, ...], boundary: str) -> None:
    network = layer(kind, num_layers=2, stencil=stencil, boundary=boundary)
    x = torch.randn(T, 3, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *a: run(network, *a), (x, *network.parameters()), fast_mode=True)


@pytest.mark.parametrize(
    "solver",
    [GMRES(max_iterations=60), BiCGStab(max_iterations=200), BlockTridiagonal()],
    ids=["gmres", "bicg", "direct"],
)
@pytest.mark.parametrize("kind", ["ImplicitGRU", "ImplicitLSTM"])
def test_implicit_is_autograd_through_a_converged_iteration(kind: str, solver: Any) -> None:
    """400 steps of z ← F(z) from zero, each followed by autograd: the whole history, and no adjoint equation."""
    x, weights = torch.randn(T, 3, D, dtype=torch.float64), torch.randn(T, 3, H, dtype=torch.float64)
    found, expected = (
        torch.autograd.grad((network(x, lengths=LENGTHS)[0] * weights).sum(), list(network.parameters()))
        for network in (layer(kind, gradient=Implicit(solver=solver, rtol=1e-13)), layer(kind, gradient=Unrolled(400)))
    )
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)


def test_phantom_and_unrolled_tend_to_the_implicit_gradient() -> None:
    x, weights = torch.randn(T, 3, D, dtype=torch.float64), torch.randn(T, 3, H, dtype=torch.float64)

    def gradient(of: Any) -> Tensor:
        network = layer(gradient=of)
        output = network(x, lengths=LENGTHS)[0]
        return torch.cat(
            [g.flatten() for g in torch.autograd.grad((output * weights).sum(), list(network.parameters()))]
        )

    exact = gradient(Implicit())
    errors = {
        str(of): float((gradient(of) - exact).norm() / exact.norm())
        for of in (Unrolled(1), Unrolled(5), Unrolled(300), Phantom(2), Phantom(20), Phantom(800))
    }
    found = list(errors.values())
    assert found[0] > found[1] > found[2], errors
    assert found[3] > found[4] > found[5], errors
    assert found[2] < 1e-6, errors
    assert found[5] < 1e-6, errors


@pytest.mark.parametrize("gradient", [Implicit(), Unrolled(3), Phantom(3)])
def test_values_do_not_depend_on_the_gradient(gradient: Any) -> None:
    x = torch.randn(T, 3, D, dtype=torch.float64)
    with torch.no_grad():
        expected = layer()(x)[0]
    torch.testing.assert_close(layer(gradient=gradient)(x)[0].detach(), expected, rtol=1e-9, atol=1e-11)


def test_second_derivatives_by_unrolling_or_a_clear_error() -> None:
    x = torch.randn(T, 1, D, dtype=torch.float64, requires_grad=True)
    output = layer()(x)[0]
    (first,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"second derivatives.*Unrolled"):
        torch.autograd.grad(first.sum(), x)
    network = layer(gradient=Unrolled(60))
    small = torch.randn(3, 1, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: network(x)[0], (small,), fast_mode=True, atol=1e-4)


def test_the_adjoint_has_its_own_tolerance_and_report() -> None:
    x = torch.randn(T, 3, D, dtype=torch.float64)
    counts = []
    for rtol in (1e-1, 1e-3, 1e-9):
        network = layer(gradient=Implicit(rtol=rtol))
        network(x, lengths=LENGTHS)[0].square().sum().backward()
        (report,) = network.adjoint_reports
        assert bool(report.converged.all())
        assert float(report.residual.max()) <= rtol
        counts.append(float(report.evaluations.mean()))
    assert counts[0] < counts[1] < counts[2]


def test_an_adjoint_that_stops_early_says_so() -> None:
    network = layer(gradient=Implicit(solver=GMRES(max_iterations=1), rtol=1e-12))
    output = network(torch.randn(T, 3, D, dtype=torch.float64))[0]
    with pytest.warns(NotConvergedWarning, match=r"adjoint of 3 of 3 problems stopped above its tolerance 1e-12"):
        output.sum().backward()


def test_gradients_of_frozen_parameters_are_not_computed() -> None:
    network = layer()
    network.cells["l0"].weight_hh.requires_grad_(False)
    network(torch.randn(T, 2, D, dtype=torch.float64))[0].sum().backward()
    assert network.cells["l0"].weight_hh.grad is None
    assert network.cells["l0"].weight_ih.grad is not None


def test_a_parameter_changed_between_the_passes_is_noticed() -> None:
    network = layer()
    output = network(torch.randn(T, 2, D, dtype=torch.float64))[0]
    with torch.no_grad():
        network.cells["l0"].weight_hh.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("make", [lambda: Unrolled(0), lambda: Phantom(3, damping=0.0), lambda: Implicit(rtol=-1.0)])
def test_settings_are_checked(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()


def test_equal_with_and_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(T, 3, D, dtype=torch.float64)

    def gradients() -> list[Tensor]:
        network = layer(boundary="learned")
        network(x, lengths=LENGTHS)[0].square().sum().backward()
        return [p.grad for p in network.parameters() if p.grad is not None]

    expected = gradients()
    monkeypatch.setattr("autapse.unfold.implicit_fused.kernels_serve", lambda *tensors: False)
    monkeypatch.setattr("autapse.unfold.banded.kernels_serve", lambda *tensors: False)
    for found, wanted in zip(gradients(), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-10)
    close(expected[0], expected[0])
