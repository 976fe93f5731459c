"""Forms with more general coefficients than the cells give them: the steps by hand, the Jacobians by autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from autapse.forms import (
    ChaosFree,
    ComplexModulus,
    Crossing,
    Form,
    GatedRecurrent,
    GlobalGates,
    Integrated,
    Leaky,
    LongShortTerm,
    SharedGate,
    Transitions,
    UpdateGate,
)
from tolerance import close

H, B = 4, 3


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def forms() -> dict[str, tuple[Form, int, tuple[int, ...]]]:
    """Form, width of its drive, sizes of its states."""
    torch.manual_seed(0)
    R = draw(H, H)
    leaky: dict[str, dict[str, Any]] = {
        "plain": {},
        "numbers": {"alpha": 0.3, "beta": 1.2},
        "scalars": {"alpha": draw(), "beta": draw()},
        "per unit": {"alpha": draw(H), "beta": draw(H), "activation": "sigmoid"},
        "per step": {"alpha": draw(3, 2), "beta": draw(3, 2), "inner_steps": 2},
        "only beta per unit": {"beta": draw(H), "activation": "identity", "inner_steps": 3},
        "modrelu": {"activation": "modrelu", "threshold": draw(H), "alpha": 0.5, "beta": 0.5},
        "modrelu without threshold": {"activation": "modrelu"},
    }
    found = {f"leaky, {name}": (Leaky(R, **options), H, (H,)) for name, options in leaky.items()}
    chains = {n: Transitions(tuple(draw(n, H, H)), tuple(draw(n - 1, H)), "tanh") for n in (1, 2, 4)}
    found |= {f"chain of {n}": (chain, H, (H,)) for n, chain in chains.items()}
    return found | {
        "shared gate": (SharedGate(R, (draw(), draw()), (draw(), draw())), 2 * H, (H,)),
        "shared gate, per unit": (SharedGate(R, (draw(H), draw(H)), (draw(H), draw(H))), 2 * H, (H,)),
        "update gate": (UpdateGate(draw(2 * H, H)), 2 * H, (H,)),
        "gru, reset after": (GatedRecurrent(draw(3 * H, H), draw(3 * H)), 3 * H, (H,)),
        "gru, reset after, no bias": (GatedRecurrent(draw(3 * H, H), None), 3 * H, (H,)),
        "gru, reset before": (GatedRecurrent(draw(3 * H, H), draw(3 * H), reset_after=False), 3 * H, (H,)),
        "gru, reset before, no bias": (GatedRecurrent(draw(3 * H, H), None, reset_after=False), 3 * H, (H,)),
        "gru, global": (
            GlobalGates(draw(3 * H, H), draw(3 * H), True, overall=draw(2, H), overall_bias=draw(2)),
            3 * H + 2,
            (H,),
        ),
        "gru, global, before": (
            GlobalGates(draw(3 * H, H), draw(3 * H), False, overall=draw(2, H), overall_bias=draw(2)),
            3 * H + 2,
            (H,),
        ),
        "gru, modrelu": (GatedRecurrent(draw(3 * H, H), None, threshold=draw(H)), 3 * H, (H,)),
        "chaos-free": (ChaosFree(draw(2 * H, H)), 3 * H, (H,)),
        "crossing": (Crossing(draw(4 * H, H)), 5 * H, (H, H)),
        "complex": (ComplexModulus(draw(2 * H, 2 * H), draw(H)), 2 * H, (2 * H,)),
        "complex without threshold": (ComplexModulus(draw(2 * H, 2 * H)), 2 * H, (2 * H,)),
        "heun": (Integrated(R, "heun", 0.3), H, (H,)),
        "rk4, gated": (Integrated(R, "rk4", 0.3, "sigmoid", gated=True), 2 * H, (H,)),
        "splitting": (Integrated(R, "splitting", 0.3, "identity"), H, (H,)),
        "lstm": (LongShortTerm(draw(4 * H, H)), 4 * H, (H, H)),
        "lstm, all": (LongShortTerm(draw(4 * H, 2), draw(4, H), draw(2, H)), 4 * H, (2, H)),
    }


FORMS = forms()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("t", [0, 2, 9])
def test_jacobian_is_the_derivative_of_the_step(name: str, t: int) -> None:
    form, width, sizes = FORMS[name]
    u, state = draw(B, width), tuple(draw(B, size) for size in sizes)
    found = form.jacobian(u, state, t)
    assert found.shape == (B, sum(sizes), sum(sizes))
    for b in range(B):

        def step(joined: Tensor, b: int = b) -> Tensor:
            new = form.step(u[b : b + 1], tuple(s.unsqueeze(0) for s in joined.split(sizes)), t)
            return torch.cat([s.squeeze(0) for s in new])

        close(found[b], jacobian(step, torch.cat([s[b] for s in state])))


@pytest.mark.parametrize("t", [0, 1, 2, 3, 100])
def test_leaky_with_coefficients_per_step(t: int) -> None:
    R, u, h, alpha, beta = draw(H, H), draw(B, H), draw(B, H), draw(3, 2), draw(3, 2)
    (found,) = Leaky(R, "tanh", alpha, beta, inner_steps=2).step(u, (h,), t)
    for k in range(2):
        h = alpha[min(t, 2), k] * torch.tanh(u + h @ R.T) + beta[min(t, 2), k] * h
    close(found, h)


def test_shared_gate() -> None:
    R, u, h = draw(H, H), draw(B, 2 * H), draw(B, H)
    (p0, p1), (q0, q1) = draw(2), draw(2)
    z, c = torch.sigmoid(u[:, :H] + h @ R.T), torch.tanh(u[:, H:] + h @ R.T)
    close(SharedGate(R, (p0, p1), (q0, q1)).step(u, (h,), 0)[0], (p0 + p1 * z) * c + (q0 + q1 * z) * h)


def test_chain() -> None:
    matrices, biases, u, h = draw(3, H, H), draw(2, H), draw(B, H), draw(B, H)
    g = torch.sigmoid(u + h @ matrices[0].T)
    for R, b in zip(matrices[1:], biases, strict=True):
        g = torch.sigmoid(b + g @ R.T)
    close(Transitions(tuple(matrices), tuple(biases), "sigmoid").step(u, (h,), 0)[0], g)


def test_a_form_without_its_step_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        Form().step(draw(B, H), (draw(B, H),), 0)
    with pytest.raises(NotImplementedError):
        Form().jacobian(draw(B, H), (draw(B, H),), 0)
