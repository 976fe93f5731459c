"""The equilibrium rules: Φ against SciPy, closed forms, conserved norms, singular points, rules of one's own."""

from __future__ import annotations

import decimal
import math
import re
from typing import Any

import pytest
import scipy.optimize
import torch
from torch import Tensor, nn

import autapse
from autapse import solve
from autapse.cells.equilibrium import EquilibriumRule
from autapse.cells.equilibrium_tanh import equilibrium
from autapse.checks import InputError, KindError, ShapeError
from tolerance import close

D, H, B = 3, 4, 5
SIZES = [10.0**n for n in range(-30, 3)] + [0.2, 0.33, 0.34, 0.5, 0.7, 1.5, 2.0, 3.0, 7.0]


def root(alpha: float) -> float:
    """Φ(α) for α > 0 by SciPy: s − tanh s = α in s = h + α, the difference taken with 80 digits."""

    def difference(s: float) -> float:
        with decimal.localcontext(prec=80):
            e = (2 * decimal.Decimal(s)).exp()
            return float(decimal.Decimal(s) - (e - 1) / (e + 1) - decimal.Decimal(alpha))

    s = scipy.optimize.brentq(difference, 1e-12, alpha + 1.1, xtol=1e-300, rtol=1e-15, maxiter=500)
    return math.tanh(s)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_phi_is_scipys_root(dtype: torch.dtype) -> None:
    alpha = torch.tensor([[size, -size] for size in SIZES], dtype=dtype)
    expected = torch.tensor([[root(float(size)), -root(float(size))] for size in alpha[:, 0]], dtype=torch.float64)
    found, iterations = equilibrium(alpha)
    error = (found.double() - expected).abs() / expected.abs()
    assert error.max() < 8 * torch.finfo(dtype).eps  # relative, over 32 orders of magnitude
    assert iterations.max() <= 4


def test_phi_has_the_papers_inverse() -> None:
    h = torch.linspace(-0.99, 0.99, 201, dtype=torch.float64)[:, None]
    h = h[h.abs()[:, 0] > 0.02]
    close(equilibrium(torch.atanh(h) - h)[0], h)


def test_phi_at_its_ends() -> None:
    found, _ = equilibrium(torch.tensor([[0.0, math.inf, -math.inf, math.nan, 40.0, -1e30]], dtype=torch.float64))
    assert found[0, :3].tolist() == [0.0, 1.0, -1.0]
    assert math.isnan(float(found[0, 3]))
    assert found[0, 4:].tolist() == [1.0, -1.0]


def tanh_rule(**keywords: Any) -> Any:
    keywords = {"dtype": torch.float64} | keywords
    return autapse.cells.EquilibriumTanh(1, 1, bias=False, **keywords)


def derivative(alpha: float, **keywords: Any) -> tuple[float, float]:
    """Φ and Φ′ as a rule with V = 0, W = 1 has them."""
    rule = tanh_rule(**keywords)
    with torch.no_grad():
        rule.weight_ih.fill_(1)
    x = torch.tensor([[alpha]], dtype=torch.float64, requires_grad=True)
    h = rule(x)
    (slope,) = torch.autograd.grad(h.sum(), x)
    return float(h.detach()), float(slope)


@pytest.mark.parametrize("alpha", [1e-4, 0.01, -0.3, 1.0, -4.0])
@pytest.mark.parametrize("solver", [None, "newton", "inexact_newton", solve.Anderson(max_iterations=500)], ids=str)
def test_the_slope_of_phi(alpha: float, solver: Any) -> None:
    h, slope = derivative(alpha, solver=solver, rtol=1e-15 if solver is None else 1e-13)
    expected = math.copysign(root(abs(alpha)), alpha)
    assert h == pytest.approx(expected, rel=1e-7 if solver else 1e-13)
    assert slope == pytest.approx((1 - expected**2) / expected**2, rel=1e-6 if solver else 1e-11)


@pytest.mark.parametrize("floor", [1e-3, 1e-2])
def test_the_floor_acts_where_it_is_said_to(floor: float) -> None:
    edge = math.atanh(math.sqrt(floor)) - math.sqrt(floor)  # h² = floor
    for alpha in (0.0, 0.3 * edge):
        h, slope = derivative(alpha, floor=floor)
        assert slope == pytest.approx((1 - h * h) / floor, rel=1e-9)
    h, slope = derivative(3 * edge, floor=floor)
    assert slope == pytest.approx((1 - h * h) / h**2, rel=1e-9)


def test_the_report_flags_the_singular_point() -> None:
    rule = tanh_rule()
    with torch.no_grad():
        rule.weight_ih.fill_(1)
    u = rule.drive(torch.tensor([[0.0], [1e-7], [1e-2], [-2.0]], dtype=torch.float64))
    h, report = rule.settle(u.new_zeros(4, 1), u, rule.prepare())
    assert report.flagged.tolist() == [True, True, False, False]
    assert report.converged.tolist() == [True] * 4
    assert h[0].item() == 0.0


# The linear rule ----------------------------------------------------------------------------------------------------


def linear(scale: float = 0.3, **keywords: Any) -> Any:
    rule = autapse.cells.EquilibriumLinear(D, H, dtype=torch.float64, **keywords)
    with torch.no_grad():
        rule.weight_align.copy_(scale * torch.randn(H, H))
        rule.bias_h.normal_()
    return rule


def test_first_order_misses_by_the_square_of_u() -> None:
    """Equation 11 against equation 10: the residual is U²·(V·h + W·x + b)."""
    rule = linear(alignment="first_order")
    x, h = torch.randn(B, D, dtype=torch.float64), torch.randn(B, H, dtype=torch.float64)
    settled, report = rule.settle(h, rule.drive(x), rule.prepare())
    g = x @ rule.weight_ih.T + rule.bias_h + h @ rule.weight_hh.T
    missed = (g @ (rule.weight_align @ rule.weight_align).T).norm(dim=1) / settled.norm(dim=1)
    close(report.residual, missed.detach())
    assert report.residual.min() > 1e-3


def test_a_singular_linear_rule_says_so() -> None:
    rule = linear()
    with torch.no_grad():
        rule.weight_align.copy_(torch.eye(H))
    with pytest.warns(solve.NotConvergedWarning, match="5 of 5 steps did not converge"):
        h = rule(torch.randn(B, D, dtype=torch.float64))
    assert not h.isfinite().all()


# The implicit midpoint ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.1, 1.0, 25.0])
@pytest.mark.parametrize("solver", [None, "newton"])
def test_the_midpoint_keeps_the_norm_that_euler_loses(step: float, solver: str | None) -> None:
    """A linear antisymmetric equation for 200 steps, without input."""
    options = {"step": step, "diffusion": 0.0, "nonlinearity": "identity", "bias": False, "dtype": torch.float64}
    layer = autapse.ImplicitMidpoint(D, 16, solver=solver, **options)
    h0 = torch.randn(1, B, 16, dtype=torch.float64)
    output, _ = layer(torch.zeros(200, B, D, dtype=torch.float64), h0)
    drift = (output.norm(dim=2) / h0.norm(dim=2) - 1).abs().max()
    assert drift < 200 * 1e-12  # the tolerance, at each step

    M = layer.cells["l0"].prepare().detach()
    euler = h0[0]
    for _ in range(200):
        euler = (euler + step * euler @ M.T).clamp(-1e100, 1e100)
    assert (euler.norm(dim=1) > 1.2 * h0[0].norm(dim=1)).all()


def test_the_midpoint_is_the_cayley_transform() -> None:
    rule = autapse.cells.ImplicitMidpoint(D, H, step=0.7, nonlinearity="identity", diffusion=0.3, dtype=torch.float64)
    x, h = torch.randn(B, D, dtype=torch.float64), torch.randn(B, H, dtype=torch.float64)
    half = 0.35 * rule.prepare()
    identity = torch.eye(H, dtype=torch.float64)
    expected = torch.linalg.solve(identity - half, (identity + half) @ h.T + 0.7 * rule.drive(x).T).T
    close(rule(x, h), expected)


def test_the_midpoint_is_of_second_order() -> None:
    """Halving the step divides the error of the pendulum-like tanh equation by four."""
    W, h0 = torch.randn(6, dtype=torch.float64), torch.randn(1, 1, H, dtype=torch.float64)

    def at_one(steps: int) -> Tensor:
        layer = autapse.ImplicitMidpoint(D, H, step=1 / steps, diffusion=0.1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            layer.cells["l0"].weight_hh.copy_(W)
        return layer(torch.zeros(steps, 1, D, dtype=torch.float64), h0)[1].detach()

    first, second, third, fourth = (at_one(n) for n in (10, 20, 40, 80))
    ratios = [(first - second).norm() / (second - third).norm(), (second - third).norm() / (third - fourth).norm()]
    assert [float(ratio) for ratio in ratios] == pytest.approx([4, 4], rel=0.05)


class Logistic(autapse.cells.ImplicitMidpoint):
    """dy/dt = y·(1 − y)"""

    def rate(self, y: Tensor, u: Tensor, weights: Any) -> Tensor:
        return y * (1 - y)


def test_a_right_side_of_ones_own() -> None:
    layer = autapse.Equilibrium(Logistic, D, H, step=0.01, dtype=torch.float64)
    h0 = torch.full((1, 1, H), 0.1, dtype=torch.float64)
    _, h = layer(torch.zeros(300, 1, D, dtype=torch.float64), h0)
    expected = 1 / (1 + 9 * math.exp(-3))
    assert h.detach().flatten().tolist() == pytest.approx([expected] * H, rel=1e-5)


# Rules of one's own -------------------------------------------------------------------------------------------------


class Elman(EquilibriumRule):
    """h' = tanh(A·h' + R·h + W·x), ∂φ/∂h by automatic differentiation."""

    def __init__(self, input_size: int, hidden_size: int, scale: float = 0.5, **keywords: Any) -> None:
        super().__init__(input_size, hidden_size, **keywords)
        self.scale = scale
        self.W, self.A, self.R = (self._parameter(hidden_size, n) for n in (input_size, hidden_size, hidden_size))
        self.reset_parameters()

    def drive(self, x: Tensor) -> Tensor:
        return x @ self.W.T

    def prepare(self) -> dict[str, Any]:
        return {"A": self.scale * self.A, "rest": (self.R, None)}

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: dict[str, Any]) -> Tensor:
        return torch.tanh(h @ weights["A"].T + previous @ weights["rest"][0].T + u)


def unrolled(rule: Elman, x: Tensor, h: Tensor) -> Tensor:
    previous = h
    for _ in range(150):
        h = torch.tanh(h @ (rule.scale * rule.A).T + previous @ rule.R.T + x @ rule.W.T)
    return h


@pytest.mark.parametrize("solver", [None, "newton", "inexact_newton", solve.Newton(), solve.Anderson()], ids=str)
def test_the_gradient_is_that_of_the_unrolled_solve(solver: Any) -> None:
    rule = Elman(D, H, dtype=torch.float64, solver=solver, rtol=1e-13)
    x = torch.randn(B, D, dtype=torch.float64, requires_grad=True)
    h = torch.randn(B, H, dtype=torch.float64, requires_grad=True)
    leaves = [x, h, *rule.parameters()]
    found, expected = rule(x, h), unrolled(rule, x, h)
    close(found, expected)
    weight = torch.linspace(-1, 2, H, dtype=torch.float64)
    close(torch.autograd.grad((found @ weight).sum(), leaves), torch.autograd.grad((expected @ weight).sum(), leaves))


def test_first_and_second_derivatives_of_a_rule_of_ones_own() -> None:
    rule = Elman(2, 3, dtype=torch.float64)
    x, h = torch.randn(2, 2, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    inputs = [x.requires_grad_(), h.requires_grad_(), *rule.parameters()]

    def call(x: Tensor, h: Tensor, *values: Tensor) -> Tensor:
        named = dict(zip([n for n, _ in rule.named_parameters()], values, strict=True))
        return torch.func.functional_call(rule, named, (x, h))

    assert torch.autograd.gradcheck(call, inputs)
    assert torch.autograd.gradgradcheck(call, inputs)


def test_the_jacobian_of_a_step() -> None:
    """(I − ∂φ/∂h')⁻¹·∂φ/∂h"""
    rule = Elman(D, H, dtype=torch.float64)
    x, h = torch.randn(B, D, dtype=torch.float64), torch.randn(B, H, dtype=torch.float64)
    slope = (1 - rule(x, h) ** 2)[:, :, None]
    expected = torch.linalg.solve(torch.eye(H) - slope * rule.scale * rule.A, slope * rule.R)
    close(rule.jacobian(x, h), expected)


class Closed(Elman):
    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        return torch.tanh(h @ self.A.T + u)


class Misshapen(Elman):
    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        return h[:, :1]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Closed(D, H)(torch.zeros(B, D)), InputError, "phi of Closed must depend only on its arguments"),
        (
            lambda: Misshapen(D, H)(torch.zeros(B, D)),
            ShapeError,
            "return a tensor of the shape of h, (5, 4); got (5, 1)",
        ),
        (lambda: Elman(D, H, solver="newtn"), InputError, "Did you mean 'newton'?"),
        (lambda: Elman(D, H, solver=3), KindError, "solver must be one of autapse.solve, or its name; got 3."),
        (lambda: Elman(D, H, rtol=-1.0), InputError, "rtol must be a finite number at least 0"),
        (lambda: tanh_rule(floor=0.0), InputError, "floor must be a finite number above 0"),
        (lambda: autapse.cells.EquilibriumLinear(D, H, alignment="no"), InputError, "alignment must be one of exact"),
        (
            lambda: autapse.cells.EquilibriumLinear(D, H, alignment="first_order", solver="newton"),
            InputError,
            'solver must be None with alignment="first_order"',
        ),
        (lambda: autapse.cells.ImplicitMidpoint(D, H, step=0.0), InputError, "step must be a finite number above 0"),
        (
            lambda: EquilibriumRule(D, H)(torch.zeros(B, D)),
            NotImplementedError,
            "must define phi(h, previous, u, weights)",
        ),
    ],
)
def test_errors_name_the_rule_and_the_remedy(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        make()


class Module(nn.Module):
    """φ(h, previous, x) as people write a module."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(2 * H + D, H, dtype=torch.float64)

    def forward(self, h: Tensor, previous: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(self.mix(torch.cat([0.5 * h, previous, x], dim=1)))


def test_a_module_as_a_rule_learns() -> None:
    module = Module()
    layer = autapse.Equilibrium(module, D, H, dtype=torch.float64)
    assert {id(p) for p in layer.parameters()} == {id(p) for p in module.parameters()}
    x = torch.randn(2, B, D, dtype=torch.float64)
    h = torch.zeros(B, H, dtype=torch.float64)
    for x_t in x:
        previous = h
        for _ in range(150):
            h = module(h, previous, x_t)
    output, _ = layer(x)
    close(output[1], h)
    parameters = list(module.parameters())
    close(torch.autograd.grad(output[1].sum(), parameters), torch.autograd.grad(h.sum(), parameters))
