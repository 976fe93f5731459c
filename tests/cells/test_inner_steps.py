"""K learned steps towards an equilibrium (ERNN paper, equations 4 and 9) against the equation written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from tolerance import close

D, H, B, T = 3, 4, 5, 7


class Own(autapse.cells.EquilibriumRule):
    """h' = tanh(A·h' + R·h + x)"""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **keywords: Any) -> None:
        super().__init__(input_size, hidden_size, bias, **keywords)
        self.A = torch.nn.Parameter(torch.empty(hidden_size, hidden_size, dtype=torch.float64))
        self.R = torch.nn.Parameter(torch.empty(hidden_size, hidden_size, dtype=torch.float64))
        self.reset_parameters()

    def prepare(self) -> Any:
        return self.A, self.R

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        return torch.tanh(h @ weights[0].T + previous @ weights[1].T + u)


def phi_of(cell: Any, h: Tensor, previous: Tensor, x: Tensor) -> Tensor:
    """φ of the paper's equations 2 and 10, of the midpoint rule and of the rule above, from their parameters alone."""
    if isinstance(cell, Own):
        return torch.tanh(h @ cell.A.T + previous @ cell.R.T + x)
    u = x @ cell.weight_ih.T + cell.bias_h
    if isinstance(cell, autapse.cells.EquilibriumTanh):
        return torch.tanh(h + previous @ cell.weight_hh.T + u)
    if isinstance(cell, autapse.cells.EquilibriumLinear):
        return h @ cell.weight_align.T + previous @ cell.weight_hh.T + u
    row, column = torch.triu_indices(H, H, offset=1)
    W = torch.zeros(H, H, dtype=torch.float64).index_put((row, column), cell.weight_hh)
    M = W - W.T - cell.diffusion * torch.eye(H, dtype=torch.float64)
    return previous + cell.step_size * torch.tanh((h + previous) / 2 @ M.T + u)


def written_out(cell: Any, x: Tensor, h: Tensor, eta: Any) -> list[Tensor]:
    """Equation 9 in Python: eta(t, k) is η_t⁽ᵏ⁾."""
    states = []
    for t, x_t in enumerate(x):
        previous = h
        for k in range(cell.inner_steps):
            h = h + eta(t, k) * (phi_of(cell, h, previous, x_t) - h)
        states.append(h)
    return states


RULES = {
    "tanh": lambda **o: autapse.EquilibriumTanh(D, H, dtype=torch.float64, **o),
    "linear": lambda **o: autapse.EquilibriumLinear(D, H, dtype=torch.float64, **o),
    "midpoint": lambda **o: autapse.ImplicitMidpoint(D, H, dtype=torch.float64, **o),
    "own": lambda **o: autapse.Equilibrium(Own, H, H, dtype=torch.float64, **o),
}


def drawn(layer: Any) -> Any:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter))
    return layer


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("eta", ["shared", "per_position", "per_step", 1.0, 0.3])
def test_equation_9_values_and_gradients(name: str, K: int, eta: Any) -> None:
    options = {"max_length": 5} if eta in ("per_position", "per_step") else {}  # shorter than the sequence
    layer = drawn(RULES[name](inner_steps=K, eta=eta, **options))
    (cell,) = layer.cells.values()
    rate = cell.inner_rate
    shapes = {"shared": (), "per_position": (5, 1), "per_step": (5, K)}
    assert rate is None if isinstance(eta, float) else tuple(rate.shape) == shapes[eta]

    def at(t: int, k: int) -> Any:
        if rate is None or rate.dim() == 0:
            return eta if rate is None else rate
        return rate[min(t, 4), k if eta == "per_step" else 0]

    x = torch.randn(T, B, layer.input_size, dtype=torch.float64)
    h0 = torch.randn(1, B, H, dtype=torch.float64)
    expected = torch.stack(written_out(cell, x, h0[0], at))
    output, h_n = layer(x, h0)
    close(output, expected)
    close(h_n[0], expected[-1])
    leaves = list(layer.parameters())
    weight = torch.randn_like(expected)
    for got, want in zip(
        torch.autograd.grad((output * weight).sum(), leaves),
        torch.autograd.grad((expected * weight).sum(), leaves),
        strict=True,
    ):
        close(got, want)
    assert layer.reports == []  # nothing was solved
    stream = layer.stream(B)
    stream.reset(h0)
    close(torch.stack([stream(x_t) for x_t in x]), expected.detach())


@pytest.mark.parametrize("name", ["tanh", "linear"])
def test_one_learned_step_runs_on_the_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = RULES[name](inner_steps=1)
    cell = layer.cells["l0"]
    assert cell.form() == "leaky"
    assert RULES[name](inner_steps=2).cells["l0"].form() is None
    monkeypatch.setattr(type(cell), "phi", None)  # the reference would call it
    if autapse.native.info()["available"]:
        assert layer(torch.randn(T, B, D, dtype=torch.float64))[0].shape == (T, B, H)


def test_another_phi_does_not_inherit_the_form() -> None:
    class Other(autapse.cells.EquilibriumTanh):
        def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Tensor) -> Tensor:
            return torch.sin(h + u)

    layer = autapse.Equilibrium(Other, D, H, inner_steps=1, eta=1.0, dtype=torch.float64)
    x = torch.randn(1, B, D, dtype=torch.float64)
    close(layer(x)[0][0], torch.sin(layer.cells["l0"].drive(x[0])))


def test_many_learned_steps_reach_the_solved_state() -> None:
    solved = drawn(autapse.ImplicitMidpoint(D, H, dtype=torch.float64))
    steps = autapse.ImplicitMidpoint(D, H, dtype=torch.float64, inner_steps=60, eta=1.0)
    steps.load_state_dict(solved.state_dict())
    x = torch.randn(T, B, D, dtype=torch.float64)
    close(steps(x)[0], solved(x)[0])


@pytest.mark.parametrize("name", RULES)
def test_eta_starts_at_a_hundredth_and_returns_there(name: str) -> None:
    layer = RULES[name](inner_steps=2)
    assert layer.cells["l0"].inner_rate.item() == pytest.approx(0.01)
    drawn(layer).reset_parameters()
    assert layer.cells["l0"].inner_rate.item() == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": 1.0}, "eta must be used with inner_steps; got 1.0."),
        (
            {"inner_steps": 1, "max_length": 3},
            'max_length must be used with eta="per_position" or "per_step" only; got 3.',
        ),
        ({"inner_steps": 0}, "inner_steps must be an integer of at least 1; got 0."),
        ({"inner_steps": 1, "solver": "newton"}, "solver must be None with inner_steps, which solves nothing"),
        ({"inner_steps": 1, "rtol": 1e-3}, "rtol must be None with inner_steps, which solves nothing"),
        ({"inner_steps": 1, "eta": "per_step"}, 'max_length must be given with eta="per_step"; got None.'),
        ({"inner_steps": 1, "eta": "each"}, "eta must be one of shared, per_position, per_step; got 'each'."),
        ({"inner_steps": 1, "eta": float("nan")}, "eta must be a finite number; got nan."),
        ({"gradient": "phantom"}, "gradient must be one of autapse.gradient, such as Phantom"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        autapse.EquilibriumTanh(D, H, **options)


@pytest.mark.parametrize("gradient", [autapse.gradient.Unrolled(60), autapse.gradient.Phantom(200, 0.5)], ids=str)
def test_other_gradients_of_an_equilibrium_tend_to_the_implicit_one(gradient: Any) -> None:
    """Where φ contracts, the series of the unrolled and the damped gradient has the implicit one as its limit."""
    layers = [
        autapse.ImplicitMidpoint(D, H, step=0.5, dtype=torch.float64, gradient=chosen) for chosen in (None, gradient)
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(T, B, D, dtype=torch.float64)
    first, second = (torch.autograd.grad(layer(x)[0].sin().sum(), list(layer.parameters())) for layer in layers)
    for got, want in zip(second, first, strict=True):
        close(got, want)
