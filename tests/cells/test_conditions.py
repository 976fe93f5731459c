"""Equilibria that are nearly singular: solved as well as rounding allows, and reported where that is not enough."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import scipy.linalg
import torch
from torch import Tensor

import autapse
from autapse import solve
from autapse.solve import NotConvergedWarning, Reason

NEAR = 1 - 1e-6
# The solvers that know the condition: of the linear rule all do.
CASES = [
    ("linear", None),
    ("linear", "newton"),
    ("linear", solve.Newton()),
    ("function", None),
    ("function", "newton"),
    ("midpoint", None),
    ("midpoint", "newton"),
]
every_case = pytest.mark.parametrize(("kind", "solver"), CASES, ids=str)


def linear(U: Any, dtype: torch.dtype, solver: Any = None) -> Any:
    """h = U·h + x"""
    matrix = torch.as_tensor(U, dtype=torch.float64)
    n = len(matrix)
    layer = autapse.EquilibriumLinear(n, n, bias=False, dtype=dtype, solver=solver)
    cell = layer.cells["l0"]
    with torch.no_grad():
        cell.weight_align.copy_(matrix)
        cell.weight_hh.zero_()
        cell.weight_ih.copy_(torch.eye(n))
    return layer


def scaling(w: float) -> Any:
    return lambda h, previous, x: w * h + x


def made(kind: str, w: float, dtype: torch.dtype, solver: Any = None) -> Any:
    """Layers that solve h = w·h + x."""
    if kind == "linear":
        return linear([[w]], dtype, solver)
    if kind == "function":
        return autapse.Equilibrium(scaling(w), 1, 1, dtype=dtype, solver=solver)
    # h' = h + 2w·(h' + h)/2 + 2u with h = 0 and u = x/2
    options = {"step": 2.0, "nonlinearity": "identity", "diffusion": 0.0, "structured": False, "bias": False}
    layer = autapse.ImplicitMidpoint(1, 1, dtype=dtype, solver=solver, **options)
    with torch.no_grad():
        layer.cells["l0"].weight_hh.fill_(w)
        layer.cells["l0"].weight_ih.fill_(0.5)
    return layer


@every_case
def test_float32_cannot_solve_what_is_nearly_singular_and_says_so(kind: str, solver: Any) -> None:
    """The truth is 1/(1 − w), to which float32 has two digits."""
    layer = made(kind, NEAR, torch.float32, solver)
    with pytest.warns(NotConvergedWarning, match=r"1 of 1 sequences did not converge.*nearly singular.*use float64"):
        output = layer(torch.ones(1, 1, 1))[0].detach()
    (report,) = layer.reports
    assert abs(float(output) * 1e-6 - 1) > 1e-3
    assert report.reasons == (Reason.ILL_CONDITIONED,)
    assert report.converged.tolist() == [False]
    assert report.flagged.tolist() == [True]
    assert "ill conditioned" in report.words()


@every_case
def test_float64_solves_the_same(kind: str, solver: Any) -> None:
    layer = made(kind, NEAR, torch.float64, solver)
    output = layer(torch.ones(1, 1, 1, dtype=torch.float64))[0].detach()
    expected = float(1 / (1 - Fraction(NEAR)))
    assert float(output) == pytest.approx(expected, rel=1e-8)
    assert layer.reports[0].reasons == (Reason.CONVERGED,)
    assert layer.reports[0].flagged.tolist() == [False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_what_is_reported_as_converged_has_half_of_its_digits(dtype: torch.dtype) -> None:
    """Over all distances to the singular matrix: the truth by fractions."""
    eps = torch.finfo(dtype).eps
    flags = []
    for exponent in range(1, 16 if dtype == torch.float64 else 7):
        w = float(torch.tensor(1 - 10.0**-exponent, dtype=dtype))
        layer = autapse.Equilibrium(scaling(w), 1, 1, dtype=dtype)
        cell = linear([[w]], dtype).cells["l0"]
        with torch.no_grad():
            right = torch.full((1, 1), 0.7, dtype=dtype)
            h, report = cell.settle(torch.zeros_like(right), right, cell.prepare())
            other, general = layer.cells["l0"].settle(torch.zeros_like(right), right, None)
        truth = float(Fraction(float(right)) / (1 - Fraction(w)))
        flags.append(report.reasons[0] is Reason.ILL_CONDITIONED)
        assert general.reasons == report.reasons
        for found in (h, other):
            if not flags[-1]:
                assert float(found) == pytest.approx(truth, rel=2 * eps**0.5)
    assert flags[0] is False
    assert flags[-1] is True
    assert flags == sorted(flags), "once too near, always too near"


@pytest.mark.parametrize("n", [2, 4, 6])
def test_an_ill_conditioned_matrix_is_solved_as_well_as_rounding_allows(n: int) -> None:
    """I − U a Hilbert matrix, whose inverse is known: condition 2·10¹ to 1.5·10⁷. An explicit inverse misses here."""
    hilbert = torch.as_tensor(scipy.linalg.hilbert(n))
    layer = linear(torch.eye(n, dtype=torch.float64) - hilbert, torch.float64)
    x = torch.randn(4, 5, n, dtype=torch.float64)
    output, _ = layer(x)
    (report,) = layer.reports
    assert report.all_converged, report.words()
    assert report.residual.max() < 100 * torch.finfo(torch.float64).eps
    expected = x @ torch.as_tensor(scipy.linalg.invhilbert(n))
    assert ((output - expected).norm(dim=2) / expected.norm(dim=2)).max() < 1e-8


def test_the_hilbert_matrix_of_ten_rows_is_ill_conditioned() -> None:
    layer = linear(torch.eye(10, dtype=torch.float64) - torch.as_tensor(scipy.linalg.hilbert(10)), torch.float64)
    with pytest.warns(NotConvergedWarning, match="nearly singular"):
        layer(torch.ones(2, 3, 10, dtype=torch.float64))
    assert layer.reports[0].reasons == (Reason.ILL_CONDITIONED,) * 3


def test_the_sizes_of_the_terms_count() -> None:
    """A large U has large terms that cancel: their rounding is no failure of the solve."""
    U = 1e6 * torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=torch.float64)
    layer = linear(U, torch.float64)
    layer(torch.randn(3, 20, 2, dtype=torch.float64))
    assert layer.reports[0].all_converged, layer.reports[0].words()


@pytest.mark.parametrize("solver", [None, "newton"], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_random_matrices_are_not_flagged(seed: int, solver: Any) -> None:
    torch.manual_seed(seed)
    for n in (4, 64):
        layer = linear(torch.randn(n, n) / n**0.5, torch.float64, solver)
        layer(torch.randn(2, 3, n, dtype=torch.float64))
        assert layer.reports[0].all_converged, layer.reports[0].words()


def test_a_singular_point_of_the_tanh_rule() -> None:
    """By its own way Φ keeps its digits there; a solver of h = tanh(h + α) cannot, in float32."""
    x = torch.tensor([[[1e-9], [1.0]]])
    own = autapse.EquilibriumTanh(1, 1, bias=False)
    other = autapse.EquilibriumTanh(1, 1, bias=False, solver="newton")
    for layer in (own, other):
        with torch.no_grad():
            layer.cells["l0"].weight_ih.fill_(1)
    output = own(x)[0].detach()
    assert float(output[0, 0]) == pytest.approx((3e-9) ** (1 / 3), rel=1e-5)
    assert own.reports[0].reasons == (Reason.CONVERGED,) * 2
    assert own.reports[0].flagged.tolist() == [True, False]
    with pytest.warns(NotConvergedWarning, match="1 of 2 sequences did not converge.*nearly singular"):
        other(x)
    assert other.reports[0].reasons == (Reason.ILL_CONDITIONED, Reason.CONVERGED)


def no_way(h: Tensor, previous: Tensor, x: Tensor) -> Tensor:
    return torch.tanh(20 * torch.cos(3 * h) + x)


@pytest.mark.filterwarnings("ignore::autapse.solve.NotConvergedWarning")
def test_every_other_reason() -> None:
    x = torch.randn(1, 2, 3, dtype=torch.float64)
    short = autapse.Equilibrium(no_way, 3, 3, solver=solve.FixedPoint(max_iterations=2), dtype=torch.float64)
    short(x)
    assert short.reports[0].reasons == (Reason.ITERATION_LIMIT,) * 2
    exact = autapse.ImplicitMidpoint(3, 3, rtol=0.0, solver=solve.Newton(max_iterations=8), dtype=torch.float64)
    exact(x)
    assert set(exact.reports[0].reasons) <= {Reason.STALLED, Reason.CONVERGED}
    x[0, 1] = torch.nan
    for name in ("EquilibriumTanh", "EquilibriumLinear", "ImplicitMidpoint", "ImplicitGRU"):
        layer = getattr(autapse, name)(3, 3, dtype=torch.float64)
        layer(x)
        assert layer.reports[0].reasons == (Reason.CONVERGED, Reason.NOT_FINITE), name


def test_each_reason_has_a_sentence() -> None:
    for reason in Reason:
        assert reason.sentence.endswith(".")
        assert reason.words == reason.words.lower()
