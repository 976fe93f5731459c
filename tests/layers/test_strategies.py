"""The stencil decides how a cell becomes a sequence; what does not apply is refused before any work is done."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.unfold import Parallel, Scan, Solve
from tolerance import close

D, H, B, T = 2, 2, 3, 7


class Smoother(autapse.Cell):
    """h_t = tanh(x_t + a·h_{t−1} + b·h_{t+1}): a cell of one's own that looks ahead, with nothing but a step."""

    stencil = (-1, 1)
    depends_on_position = False

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.a = torch.nn.Parameter(torch.tensor(0.4, dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.tensor(-0.5, dtype=torch.float64))

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
        before, after = state
        return (torch.tanh(u + self.a * before + self.b * after),)


def iterated(x: Tensor, a: Tensor, b: Tensor, rounds: int = 80) -> Tensor:
    """The equation as a plain iteration, which contracts because |a| + |b| < 1; autograd follows it."""
    h, zero = torch.zeros_like(x), torch.zeros_like(x[:1])
    for _ in range(rounds):
        h = torch.tanh(x + a * torch.cat([zero, h[:-1]]) + b * torch.cat([h[1:], zero]))
    return h


def test_a_cell_of_ones_own_that_looks_ahead_is_solved_and_differentiated() -> None:
    layer = autapse.Recurrent(Smoother, D, H, tolerance=1e-12)
    x = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    (cell,) = layer.cells.values()
    lengths = [7, 1, 4]
    output, h_n = layer(x, lengths=lengths)
    expected = [iterated(x[:n, b], cell.a, cell.b) for b, n in enumerate(lengths)]
    for b, n in enumerate(lengths):
        close(output[:n, b], expected[b])
        close(h_n[0, b], expected[b][-1])
    leaves = [x, cell.a, cell.b]
    loss = sum((e.sin()).sum() for e in expected)
    for got, want in zip(
        torch.autograd.grad(output.sin().sum(), leaves), torch.autograd.grad(loss, leaves), strict=True
    ):
        close(got, want)
    assert layer.reports[0].all_converged
    assert layer.looks_ahead


def test_a_changed_parameter_is_noticed_before_the_backward_pass() -> None:
    layer = autapse.Recurrent(Smoother, D, H, tolerance=1e-10)
    output, _ = layer(torch.randn(T, B, D, dtype=torch.float64))
    with torch.no_grad():
        layer.cells["l0"].a.add_(0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize(
    ("layer", "strategy"),
    [
        (autapse.GRU(D, H), Scan),
        (autapse.GRU(D, H, unfold=Parallel()), Parallel),
        (autapse.GRU(D, H, checkpoint_every=3), Scan),
        (autapse.EquilibriumTanh(D, H), Scan),
        (autapse.ERNN(D, H), Scan),
        (autapse.ImplicitGRU(D, H), Solve),
        (autapse.Implicit(torch.add, hidden_size=2), Solve),
    ],
    ids=str,
)
def test_the_stencil_decides(layer: Any, strategy: type) -> None:
    assert type(layer.strategy) is strategy
    assert layer.looks_ahead == (strategy is Solve)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: autapse.ImplicitGRU(D, H, unfold=Parallel()),
            "unfold must be None: ImplicitGRU has the stencil (-1,",
        ),
        (lambda: autapse.ImplicitGRU(D, H, unfold=Scan()), "unfold must be None: ImplicitGRU looks ahead"),
        (lambda: autapse.ImplicitGRU(D, H, checkpoint_every=5), "option of ImplicitGRU must be one of this layer's"),
        (lambda: autapse.EquilibriumTanh(D, H, unfold=Parallel()), "unfold must be None: EquilibriumTanh has the"),
        (lambda: autapse.GRU(D, H, unfold=Solve()), "unfold must be None: GRU does not look ahead"),
        (lambda: autapse.GRU(D, H, cache=5), "option of GRU must be one of this layer's: reset; got 'cache'."),
        (
            lambda: autapse.GRU(D, H, unfold=Parallel(), checkpoint_every=2),
            "checkpoint_every must be None if unfold is",
        ),
        (lambda: autapse.GRU(D, H, unfold=Parallel), "Pass an instance, with its brackets."),
        (lambda: autapse.ImplicitGRU(D, H, bidirectional=True), "bidirectional must be False"),
        (lambda: autapse.GRU(D, H)(torch.zeros(1, 1, D), keys=[1]), "keys must be None: GRU is computed step by"),
        (
            lambda: autapse.RIN(D, H)(torch.zeros(1, 1, D), start_states=torch.zeros(1, 1, H)),
            "start_states must be left",
        ),
    ],
)
def test_what_does_not_apply_is_refused_by_one_sentence(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("cell", "depends"),
    [
        (autapse.cells.GRU(D, H), False),
        (autapse.cells.ERNN(D, H), False),
        (autapse.cells.ERNN(D, H, eta="per_step", max_length=5), True),
        (autapse.cells.EquilibriumTanh(D, H), False),
        (autapse.cells.EquilibriumTanh(D, H, inner_steps=2, eta="per_position", max_length=5), True),
        (autapse.cells.ImplicitGRU(D, H), False),
        (Smoother(D, H), False),
        (autapse.Cell(D, H), True),  # a step of somebody's own may read t
    ],
    ids=str,
)
def test_depends_on_position_is_true_of_each_cell(cell: autapse.Cell, depends: bool) -> None:
    assert cell.depends_on_position == depends
