"""The rules of implicit networks: against their equations written out with loops, and against autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from autapse.forms.implicit import AnyRule, Rule
from autapse.forms.implicit_gru import ImplicitGRURule
from autapse.forms.implicit_lstm import ImplicitLSTMRule
from tolerance import close

STENCILS = [(-1, 1), (1, -1), (-2, -1, 1, 2), (-1,), (-3, 1)]
H, M = 4, 5


def make(kind: type[Rule], stencil: tuple[int, ...], scale: float = 1.0) -> tuple[Any, Tensor, tuple[Tensor, ...]]:
    """A rule with random matrices, a drive, and neighbours, all of them leaves."""
    count = len(stencil)

    def leaf(*shape: int) -> Tensor:
        return (scale * torch.randn(*shape, dtype=torch.float64)).requires_grad_()

    if kind is ImplicitGRURule:
        rule: Any = ImplicitGRURule(stencil, leaf(count, H, H), leaf(2 * H, H), leaf(H, H))
        return rule, leaf(M, (count + 3) * H), tuple(leaf(M, H) for _ in stencil)
    rule = ImplicitLSTMRule(stencil, leaf(count, H, H), leaf(4 * H, H))
    return rule, leaf(M, (count + 4) * H), tuple(leaf(M, 2 * H) for _ in stencil)


def sigmoid(a: float) -> float:
    return 1 / (1 + math.exp(-a)) if a > -700 else 0.0


def products(matrix: Tensor, vector: list[float]) -> list[float]:
    return [sum(w * v for w, v in zip(row, vector, strict=True)) for row in matrix.tolist()]


def switched(rule: Any, u: Tensor, h: list[list[float]]) -> list[list[float]]:
    """s_j of each offset and channel, for one position."""
    weights = []
    for j, state in enumerate(h):
        inner = products(rule.switches[j], state)
        weights.append([sigmoid(u[j * H + c].item() + inner[c]) for c in range(H)])
    return [[w[c] / sum(other[c] for other in weights) for c in range(H)] for w in weights]


def gru_by_hand(rule: ImplicitGRURule, u: Tensor, near: tuple[Tensor, ...]) -> list[float]:
    h = [state.tolist() for state in near]
    s, rest = switched(rule, u, h), u[len(h) * H :].tolist()
    mixed = [sum(s[j][c] * h[j][c] for j in range(len(h))) for c in range(H)]
    gates = products(rule.gates, mixed)
    z = [sigmoid(rest[c] + gates[c]) for c in range(H)]
    r = [sigmoid(rest[H + c] + gates[H + c]) for c in range(H)]
    inner = products(rule.candidate, [r[c] * mixed[c] for c in range(H)])
    return [(1 - z[c]) * mixed[c] + z[c] * math.tanh(rest[2 * H + c] + inner[c]) for c in range(H)]


def lstm_by_hand(rule: ImplicitLSTMRule, u: Tensor, near: tuple[Tensor, ...]) -> list[float]:
    h, c = ([state[part].tolist() for state in near] for part in (slice(0, H), slice(H, 2 * H)))
    s, rest = switched(rule, u, h), u[len(h) * H :].tolist()
    mixed = [[sum(s[j][n] * part[j][n] for j in range(len(h))) for n in range(H)] for part in (h, c)]
    a = [x + y for x, y in zip(rest, products(rule.gates, mixed[0]), strict=True)]
    cells = [sigmoid(a[H + n]) * mixed[1][n] + sigmoid(a[n]) * math.tanh(a[2 * H + n]) for n in range(H)]
    return [*(sigmoid(a[3 * H + n]) * math.tanh(cells[n]) for n in range(H)), *cells]


BY_HAND: dict[type[Rule], Any] = {ImplicitGRURule: gru_by_hand, ImplicitLSTMRule: lstm_by_hand}
every_rule = pytest.mark.parametrize("kind", BY_HAND, ids=lambda kind: kind.__name__)
every_stencil = pytest.mark.parametrize("stencil", STENCILS, ids=str)


@every_rule
@every_stencil
def test_value_is_the_equation(kind: type[Rule], stencil: tuple[int, ...]) -> None:
    rule, u, near = make(kind, stencil)
    expected = [BY_HAND[kind](rule, u[m].detach(), tuple(h[m].detach() for h in near)) for m in range(M)]
    close(rule.evaluate(u, near).detach(), torch.tensor(expected, dtype=torch.float64))
    close(rule.linearize(u, near)[0].detach(), torch.tensor(expected, dtype=torch.float64))
    close(rule.evaluate_with_bands(u, near)[0].detach(), torch.tensor(expected, dtype=torch.float64))


@every_rule
@every_stencil
def test_derivatives_are_those_of_autograd(kind: type[Rule], stencil: tuple[int, ...]) -> None:
    rule, u, near = make(kind, stencil)
    value = rule.evaluate(u, near)
    v = torch.randn_like(value)
    expected = torch.autograd.grad(value, near, v)
    slope = rule.linearize(u, near)[1]
    close(list(slope.vjp(v)), list(expected))
    tangents = tuple(torch.randn_like(h) for h in near)
    w = torch.zeros_like(value, requires_grad=True)  # forward products as the derivative of reverse ones
    pulled = torch.autograd.grad(rule.evaluate(u, near), near, w, create_graph=True)
    pushed = torch.autograd.grad(pulled, w, tangents)[0]
    close(slope.jvp(tangents).detach(), pushed)


@every_rule
def test_blocks_are_the_jacobians_of_each_position(kind: type[Rule]) -> None:
    rule, u, near = make(kind, (-1, 1))
    blocks = rule.linearize(u, near)[1].blocks()
    for m in range(M):
        for j in range(2):

            def one(h: Tensor, m: int = m, j: int = j) -> Tensor:
                parts = tuple(h[None] if i == j else other[m : m + 1].detach() for i, other in enumerate(near))
                return rule.evaluate(u[m : m + 1].detach(), parts)[0]

            expected = torch.autograd.functional.jacobian(one, near[j][m].detach())
            close(blocks[j][m].detach(), expected.detach())


@every_rule
def test_bands_are_what_is_left_of_the_jacobian_without_products(kind: type[Rule]) -> None:
    """With all recurrent matrices zero nothing couples channels, and J is its diagonal: for c, and for the GRU's h."""
    rule, u, near = make(kind, (-2, -1, 1), scale=1.0)
    with torch.no_grad():
        for matrix in rule.operands:
            matrix.zero_()
    slope = rule.linearize(u, near)[1]
    part = slice(0, H) if kind is ImplicitGRURule else slice(H, 2 * H)
    for band, given, block in zip(slope.bands(), rule.evaluate_with_bands(u, near)[1], slope.blocks(), strict=True):
        diagonal = block.diagonal(dim1=1, dim2=2)
        close(band[:, part].detach(), diagonal[:, part].detach())
        close(given.detach(), band.detach())
        assert float((block - torch.diag_embed(diagonal))[:, part, part].detach().abs().max()) == 0


@every_rule
def test_bands_add_up_to_one_at_most(kind: type[Rule]) -> None:
    """So that elimination without pivots is stable, whatever the weights: past the ends there is no coupling."""
    rule, u, near = make(kind, (-1, 1), scale=5.0)
    total = sum(rule.evaluate_with_bands(u, near)[1])
    assert float(total.detach().max()) <= 1
    assert float(total.detach().min()) >= 0


def test_switches_survive_underflow() -> None:
    """Both sigmoids are below the least double; their quotient is that of exp(a)."""
    rule, _, near = make(ImplicitGRURule, (-1, 1))
    with torch.no_grad():
        rule.switches.zero_()
    u = torch.zeros(M, 5 * H, dtype=torch.float64)
    u[:, :H], u[:, H : 2 * H] = -900.0, -900.0 - math.log(3)
    u[:, 2 * H : 3 * H] = -1000.0  # z = 0: h is what the switches mix
    close(rule.evaluate(u, near).detach(), (0.75 * near[0] + 0.25 * near[1]).detach())


def test_any_rule_has_automatic_derivatives() -> None:
    weight = torch.randn(H, H, dtype=torch.float64, requires_grad=True)
    frozen = torch.randn(H, dtype=torch.float64)
    rule = AnyRule(lambda u, p, n: torch.tanh(u + p @ weight - n * frozen), (-1, 1), (weight, frozen))
    u, p, n, v = (torch.randn(M, H, dtype=torch.float64) for _ in range(4))
    value, slope = rule.linearize(u, (p, n))
    slopes = v * (1 - value.detach() ** 2)
    close(list(slope.vjp(v)), [slopes @ weight.detach().t(), -slopes * frozen])
    close(slope.blocks()[1].detach(), torch.diag_embed(-(1 - value.detach() ** 2) * frozen))
