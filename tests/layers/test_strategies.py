"""The stencil decides how a cell becomes a sequence; what does not apply is refused before any work is done."""

from __future__ import annotations

import gc
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
        (
            lambda: autapse.GRU(D, H, cache=5),
            "reset, gates, longest, checkpoint_every, clip_hidden, information_flow; got 'cache'.",
        ),
        (
            lambda: autapse.GRU(D, H, unfold=Parallel(), checkpoint_every=2),
            "checkpoint_every must be None if unfold is",
        ),
        (lambda: autapse.GRU(D, H, unfold=Parallel), "Pass an instance, with its brackets."),
        (lambda: autapse.ImplicitGRU(D, H, bidirectional=True), "bidirectional must be False"),
        (lambda: autapse.GRU(D, H)(torch.zeros(1, 1, D), keys=[1]), "keys must be None for GRU: only implicit layers"),
        (
            lambda: autapse.RIN(D, H)(torch.zeros(1, 1, D), start_states=torch.zeros(1, 1, H)),
            "start_states must be None",
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


@pytest.mark.parametrize("stencil", [(-2, 2), (-2, -1, 1, 2), (-2, -1)], ids=str)
def test_a_wide_implicit_stencil_carries_no_history(stencil: tuple[int, ...]) -> None:
    layer = autapse.ImplicitGRU(D, H, stencil=stencil, dtype=torch.float64)
    x, h0 = torch.randn(T, B, D, dtype=torch.float64), torch.randn(1, B, H, dtype=torch.float64)
    output, h_n = layer(x, (h0, h0))
    assert h_n.shape == (1, B, H)
    close(layer.final_output(h_n), output[-1])
    model = autapse.models.Classifier(f"implicitgru:stencil={stencil}".replace(" ", ""), D, 2, 4)
    assert model(torch.randn(B, T, D)).shape == (B, 2)


def test_the_last_output_of_a_delayed_cell_with_an_output_of_its_own() -> None:
    class Both(autapse.Cell):
        stencil, state_sizes, output_size = (-1, -3), (D, D), 2 * D

        def output(self, state: tuple[Tensor, ...]) -> Tensor:
            return torch.cat(state, -1)

        def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
            a, c, earlier_a, earlier_c = state
            return torch.tanh(u + a + 0.1 * earlier_a), torch.tanh(c + u + 0.2 * earlier_c)

    layer = autapse.Recurrent(Both, D, D)
    output, h_n = layer(torch.randn(T, B, D))
    torch.testing.assert_close(layer.final_output(h_n), output[-1])


@pytest.mark.parametrize("name", ["GRU", "LSTM", "RIN"])
def test_functional_call_reaches_a_cell_of_a_layer(name: str) -> None:
    cell, x = getattr(autapse, name)(D, H).cells["l0"], torch.randn(B, D)
    zeros = {key: torch.zeros_like(value) for key, value in cell.named_parameters()}
    state = torch.func.functional_call(cell, zeros, (x,))
    assert all(not part.any() for part in (state if isinstance(state, tuple) else (state,)))


def test_reports_are_those_of_the_last_call() -> None:
    layer, x = autapse.GRU(D, H, unfold=Parallel(max_iterations=1)), torch.randn(T, B, D)
    with pytest.warns(autapse.solve.NotConvergedWarning):
        layer(x)
    layer.unfold = None
    layer(x)
    assert layer.reports == []
    assert layer.converged() is None
    empty = autapse.EquilibriumTanh(D, H)
    empty(x, lengths=[0, 0, 0])
    assert empty.reports[0].converged.tolist() == [True] * 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: autapse.GRU(D, H).bfloat16()(x.bfloat16(), keys=[1, 2, 3]), "keys must be None for GRU"),
        (lambda x: autapse.ImplicitGRU(D, H)(x, start=2), "start must be 0: an implicit layer reads whole sequences"),
        (
            lambda x: autapse.Implicit(torch.add, hidden_size=2, num_layers=2),
            "option of Implicit must be one of",
        ),
        (
            lambda x: autapse.Implicit(torch.add, hidden_size=[2, 2]),
            "hidden_size must be an integer: a rule",
        ),
    ],
)
def test_calls_that_do_not_apply(make: Any, message: str) -> None:
    with pytest.raises((InputError, autapse.checks.KindError), match=re.escape(message)):
        make(torch.randn(T, B, D))


def test_a_solve_that_is_given_is_used_and_shown() -> None:
    layer = autapse.ImplicitGRU(D, H, unfold=Solve(cache=4.0, tolerance=1e-3), batch_first=True)
    assert "unfold=Solve(cache=4.0, tolerance=Tolerance(" in repr(layer)
    assert autapse.models.Classifier(layer, D, 2).solutions is not None


def test_the_graph_frees_its_tensors_after_the_backward_pass() -> None:
    layer = autapse.EquilibriumTanh(D, 50)
    x = torch.randn(40, B, D, requires_grad=True)
    output = layer(x)[0]
    output.sum().backward()
    gc.collect()
    sizes = [t.numel() for t in gc.get_objects() if type(t) is Tensor and t.shape == (B, 50)]
    assert len(sizes) < 20  # not one or more per step


def test_a_stencil_of_an_object_that_looks_ahead_is_refused() -> None:
    class Late(autapse.Cell):
        def __init__(self, input_size: int, hidden_size: int) -> None:
            super().__init__(input_size, hidden_size)
            self.stencil = (-1, 1)

    with pytest.raises(InputError, match="stencil must be an attribute of the class, for a cell that looks ahead"):
        autapse.Recurrent(Late, D, H)
