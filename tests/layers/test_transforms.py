"""Every layer under torch.func's transforms and dual tensors: finite differences, or an error that names the remedy."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call

import autapse
from autapse.gradient import Unrolled
from autapse.gradient.function import Function
from autapse.unfold import Parallel
from networks import BASIC, COMPOSED_VARIANTS, SOLVED_VARIANTS, perturb

# torch's own, in its first use of dual numbers
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

D, H, T, B = 2, 2, 3, 2
STEP = 1e-3  # of the differences, whose formulas leave errors of its fourth power
FLOAT64 = {"dtype": torch.float64}
REVERSE, SCAN, SAMPLES = "Use reverse mode", "Use unfold=None", "Put the samples into the batch"


def settling(h: Tensor, previous: Tensor, x: Tensor) -> Tensor:
    return torch.tanh(0.5 * h.roll(1, 1) + 0.3 * previous + x)


def looking(x: Tensor, before: Tensor, after: Tensor) -> Tensor:
    return torch.tanh(x + 0.3 * before - 0.4 * after)


def away_from_zero(layer: Any) -> Any:
    """An EquilibriumTanh whose states are not near 0, where it has no derivative."""
    torch.nn.init.constant_(layer.cells["l0"].bias_h, 2.0)
    return layer


def far_from_zero(layer: Any) -> Any:
    """A complex network with large arguments: near 0 the phase of one changes fast, and differences are not exact."""
    with torch.no_grad():
        layer.cells["l0"].weight_ih.mul_(5)
    return layer


EXPLICIT = [*BASIC, *(network for network in COMPOSED_VARIANTS if network.output_size(H) == H)]
MAKE: dict[str, Callable[[], Any]] = {str(network): network.layer for network in [*EXPLICIT, *SOLVED_VARIANTS]}
MAKE = {
    name: (lambda make=make: away_from_zero(make(D, H))) if "Tanh" in name else (lambda make=make: make(D, H))
    for name, make in MAKE.items()
} | {
    "KRU": lambda: far_from_zero(perturb(autapse.KRU(D, H, **FLOAT64))),
    "EquilibriumTanh-newton": lambda: away_from_zero(autapse.EquilibriumTanh(D, H, solver="newton", **FLOAT64)),
    "Equilibrium-function": lambda: autapse.Equilibrium(settling, D, H, **FLOAT64),
    "GRU-checkpoint": lambda: perturb(autapse.GRU(D, H, checkpoint_every=2, **FLOAT64)),
    "Equilibrium-checkpoint": lambda: autapse.Equilibrium(settling, D, H, checkpoint_every=2, **FLOAT64),
    "ImplicitMidpoint-checkpoint": lambda: perturb(autapse.ImplicitMidpoint(D, H, checkpoint_every=2, **FLOAT64)),
    "GRU-parallel": lambda: perturb(autapse.GRU(D, H, unfold=Parallel(), **FLOAT64)),
    "ImplicitGRU": lambda: autapse.ImplicitGRU(D, H, tolerance=1e-13, **FLOAT64),
    "ImplicitLSTM": lambda: autapse.ImplicitLSTM(D, H, tolerance=1e-13, **FLOAT64),
    "ImplicitGRU-unrolled": lambda: autapse.ImplicitGRU(D, H, tolerance=1e-13, gradient=Unrolled(60), **FLOAT64),
    "Implicit": lambda: autapse.Implicit(looking, hidden_size=H, tolerance=1e-13),
}
# What a layer refuses, by mode: the remedy that its error names.
REFUSED = {
    "GRU-parallel": {"jvp": SCAN, "jacfwd": SCAN, "hessian": SCAN, "dual": SCAN, "vmap": SAMPLES},
    "ImplicitGRU": {"jvp": REVERSE, "jacfwd": REVERSE, "hessian": REVERSE, "dual": REVERSE, "vmap": SAMPLES},
    "ImplicitGRU-unrolled": {"vmap": SAMPLES},
}
REFUSED |= dict.fromkeys(("ImplicitLSTM", "Implicit"), REFUSED["ImplicitGRU"])


class Problem:
    """A number that follows from the input and the parameters of a layer, and a direction to move them in."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(5)  # away from the kinks of relu, whatever random state the tests run with
        self.layer = MAKE[name]()
        self.x = torch.randn(T, B, D, dtype=torch.float64)
        self.weight = torch.randn(T, B, self.layer.output_size, dtype=torch.float64)
        self.parameters = {key: p.detach().clone() for key, p in self.layer.named_parameters()}
        self.tangents = {key: torch.randn_like(p) for key, p in self.parameters.items()}
        self.tangent = torch.randn_like(self.x)

    def __call__(self, x: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        return (functional_call(self.layer, parameters, (x,))[0].square() * self.weight).sum()

    def of_input(self, x: Tensor) -> Tensor:
        return self(x, self.parameters)

    @torch.no_grad()
    def moved(self, steps: float, parameters: bool = True) -> float:
        """The number at a point that many steps along the direction."""
        values = {key: p + steps * STEP * self.tangents[key] for key, p in self.parameters.items()}
        return float(self(self.x + steps * STEP * self.tangent, values if parameters else self.parameters))

    def slope(self, parameters: bool = True) -> float:
        f = [self.moved(n, parameters) for n in (-2, -1, 1, 2)]
        return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * STEP)

    def curvature(self) -> float:
        f = [self.moved(n, parameters=False) for n in (-2, -1, 0, 1, 2)]
        return (-f[0] + 16 * f[1] - 30 * f[2] + 16 * f[3] - f[4]) / (12 * STEP**2)


def by_jvp(problem: Problem) -> tuple[Tensor, float]:
    at, along = (problem.x, problem.parameters), (problem.tangent, problem.tangents)
    return torch.func.jvp(problem, at, along)[1], problem.slope()


def by_grad(problem: Problem) -> tuple[Tensor, float]:
    of_x, of_parameters = torch.func.grad(problem, argnums=(0, 1))(problem.x, problem.parameters)
    parts = [(of_parameters[key] * problem.tangents[key]).sum() for key in of_parameters]
    return (of_x * problem.tangent).sum() + sum(parts), problem.slope()


def by_jacfwd(problem: Problem) -> tuple[Tensor, float]:
    return (torch.func.jacfwd(problem.of_input)(problem.x) * problem.tangent).sum(), problem.slope(parameters=False)


def by_jacrev(problem: Problem) -> tuple[Tensor, float]:
    """Of all outputs, so that the backward pass itself runs under vmap."""
    jacobian = torch.func.jacrev(lambda x: functional_call(problem.layer, problem.parameters, (x,))[0].square())(
        problem.x
    )
    found = torch.einsum("abcdef,abc,def", jacobian, problem.weight, problem.tangent)
    return found, problem.slope(parameters=False)


def by_vmap(problem: Problem) -> tuple[Tensor, float]:
    """Of several inputs, each with parameters of its own."""
    inputs = torch.stack([problem.x + n * STEP * problem.tangent for n in (-1, 0, 3)])
    values = {
        k: torch.stack([p + n * STEP * problem.tangents[k] for n in (-1, 0, 3)]) for k, p in problem.parameters.items()
    }
    found = torch.func.vmap(problem)(inputs, values)
    return found @ torch.tensor([1.0, 10.0, 100.0]).double(), problem.moved(-1) + 10 * problem.moved(
        0
    ) + 100 * problem.moved(3)


def by_hessian(problem: Problem) -> tuple[Tensor, float]:
    hessian = torch.func.hessian(problem.of_input)(problem.x)
    return torch.einsum("abcdef,abc,def", hessian, problem.tangent, problem.tangent), problem.curvature()


def by_dual_tensors(problem: Problem) -> tuple[Tensor, float]:
    with forward_ad.dual_level():
        moved = problem.of_input(forward_ad.make_dual(problem.x, problem.tangent))
        return forward_ad.unpack_dual(moved).tangent, problem.slope(parameters=False)


MODES = {
    "jvp": by_jvp,
    "jacfwd": by_jacfwd,
    "jacrev": by_jacrev,
    "vmap": by_vmap,
    "grad": by_grad,
    "hessian": by_hessian,
    "dual": by_dual_tensors,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MAKE)
def test_transforms_agree_with_finite_differences(name: str, mode: str) -> None:
    problem = Problem(name)
    remedy = REFUSED.get(name, {}).get(mode)
    if remedy is not None:
        with pytest.raises(NotImplementedError, match=re.escape(remedy)):
            MODES[mode](problem)
        return
    found, expected = MODES[mode](problem)
    assert abs(expected) > 1e-6, "a derivative of zero would prove nothing"
    assert float(found) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", ["ImplicitMidpoint", "EquilibriumTanh-newton", "EquilibriumLinear"])
def test_gradients_of_each_sample(name: str) -> None:
    """torch.func.vmap of torch.func.grad, the usual way to per-sample gradients."""
    problem = Problem(name)
    inputs = torch.stack([problem.x, -problem.x])
    found = torch.func.vmap(torch.func.grad(problem.of_input))(inputs)
    for n, x in enumerate(inputs):
        torch.testing.assert_close(found[n], torch.func.grad(problem.of_input)(x))


@pytest.mark.parametrize("name", ["GRU-parallel", "ImplicitGRU", "Implicit"])
def test_second_derivatives_that_are_not_there_are_refused(name: str) -> None:
    problem = Problem(name)
    with pytest.raises(NotImplementedError, match=r"first derivatives only|cannot be differentiated again"):
        torch.func.grad(lambda x: torch.func.grad(problem.of_input)(x).sum())(problem.x)


def functions() -> list[type]:
    """Every autograd function of the library."""
    found = set()
    for module in pkgutil.walk_packages(autapse.__path__, "autapse."):
        if "__main__" not in module.name:
            members = vars(importlib.import_module(module.name)).values()
            found |= {m for m in members if inspect.isclass(m) and issubclass(m, torch.autograd.Function)}
    return sorted(found - {torch.autograd.Function}, key=lambda m: m.__qualname__)


def test_every_function_has_rules_for_every_transform() -> None:
    """They inherit them; those of kernels and of copies in place are never used under a transform (`is_plain`)."""
    outside = [f"{m.__module__}.{m.__qualname__}" for m in functions() if not issubclass(m, Function)]
    assert outside == [
        "autapse.native.heads._Access",
        "autapse.sequences.steps._AddSteps",
        "autapse.native.ops._Differentiable",
        "autapse.sequences.steps._SideBySide",
        "autapse.native.attention._Weights",
    ]


def test_a_function_without_a_rule_raises() -> None:
    class Doubled(Function):
        remedy = "Halve it."

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

    x = torch.ones(3)
    with pytest.raises(NotImplementedError, match=r"Doubled has no forward-mode derivative .* Halve it."):
        torch.func.jvp(Doubled.apply, (x,), (x,))
    assert torch.func.vmap(Doubled.apply)(x).tolist() == [2, 2, 2]
