"""Implicit layers as torch modules: copies, swapped weights, several graphs, odd sizes and dtypes."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import autapse
from autapse.gradient import Implicit as ImplicitGradient
from autapse.gradient import Phantom, Unrolled
from autapse.solve import NotConvergedWarning, Tridiagonal
from tolerance import close

D, H, T = 3, 4, 8
LENGTHS = [5, 8, 0, 3]
KINDS = {"ImplicitGRU": autapse.ImplicitGRU, "ImplicitLSTM": autapse.ImplicitLSTM}
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str = "ImplicitGRU", **keywords: Any) -> Any:
    keywords = {"dtype": torch.float64, "tolerance": 1e-11} | keywords
    return KINDS[kind](D, keywords.pop("hidden_size", H), **keywords)


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def gradients(layer: nn.Module, output: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(output.square().sum(), list(layer.parameters()), retain_graph=True))


# Copies and weights ---------------------------------------------------------------------------------------------------


@every_kind
def test_copies_work_after_a_backward_pass(kind: str) -> None:
    layer, x = make(kind, cache=1.0), data(T, 2, D)
    layer(x, keys=[1, 2])[0].sum().backward()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x)[0], layer(x)[0])
        assert len(other.solving.solutions) == 2
        other.solving.solutions.clear()
    assert len(layer.solving.solutions) == 2
    fresh = make(kind)
    fresh.load_state_dict(layer.state_dict())
    assert torch.equal(fresh(x)[0], layer(x)[0])


class Own(nn.Module):
    """A rule with weights and a buffer."""

    hidden_size = H

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * data(H, H))
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor, before: Tensor, after: Tensor) -> Tensor:
        return torch.tanh(x + before @ self.weight - self.scale * after @ self.weight.t())


@pytest.mark.parametrize("gradient", [ImplicitGradient(), Unrolled(200)], ids=["implicit", "unrolled"])
def test_a_backward_pass_uses_the_weights_of_its_forward_pass(gradient: Any) -> None:
    """functional_call has put the module's own weights back by then."""
    layer, x = autapse.Implicit(Own(), tolerance=1e-13, gradient=gradient), data(T, 2, H)
    # A norm of 0.5 makes the rule contract by (1 + scale)/2 at least: 0.75²⁰⁰ is below rounding.
    weight, scale = data(H, H), torch.tensor(0.5, dtype=torch.float64)
    weight = (0.5 * weight / torch.linalg.matrix_norm(weight, 2)).requires_grad_()
    output, _ = torch.func.functional_call(layer, {"rule.weight": weight, "rule.scale": scale}, (x,))
    (found,) = torch.autograd.grad(output.square().sum(), weight)
    other = autapse.Implicit(Own(), tolerance=1e-13)
    with torch.no_grad():
        other.rule.weight.copy_(weight)
        other.rule.scale.copy_(scale)
    expected, _ = other(x)
    close(output.detach(), expected.detach())
    torch.testing.assert_close(found, gradients(other, expected)[0], rtol=1e-8, atol=1e-10)


@every_kind
def test_swapped_weights_of_a_layer(kind: str) -> None:
    layer, other, x = make(kind), make(kind), data(T, 2, D)
    weights = {name: p.detach().clone().requires_grad_() for name, p in other.named_parameters()}
    output = torch.func.functional_call(layer, weights, (x,))[0]
    expected = other(x)[0]
    found = torch.autograd.grad(output.square().sum(), list(weights.values()))
    torch.testing.assert_close(list(found), gradients(other, expected), rtol=1e-9, atol=1e-11)


def test_gradients_by_torch_func() -> None:
    layer, x = make(), data(T, 4, D)
    weights = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(weights: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(layer, weights, (x,), {"lengths": LENGTHS})[0].square().sum()

    found = torch.func.grad(loss)(weights)
    expected = gradients(layer, layer(x, lengths=LENGTHS)[0])
    torch.testing.assert_close(list(found.values()), expected, rtol=1e-8, atol=1e-10)
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        torch.func.grad(lambda w: sum(g.sum() for g in torch.func.grad(loss)(w).values()))(weights)


def test_weights_that_changed_before_the_backward_pass_are_an_error() -> None:
    layer = make()
    output = layer(data(T, 2, D))[0]
    with torch.no_grad():
        layer.cells["l0"].weight_hh.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


# Graphs ---------------------------------------------------------------------------------------------------------------


@every_kind
def test_two_calls_and_one_backward_pass(kind: str) -> None:
    layer, x, y = make(kind), data(T, 2, D), data(T, 2, D)
    both = gradients(layer, torch.cat([layer(x)[0], layer(y)[0]]))
    apart = zip(gradients(layer, layer(x)[0]), gradients(layer, layer(y)[0]), strict=True)
    torch.testing.assert_close(both, [a + b for a, b in apart], rtol=1e-9, atol=1e-11)


@every_kind
def test_a_graph_that_is_retained_gives_the_same_again(kind: str) -> None:
    layer = make(kind)
    output = layer(data(T, 4, D), lengths=LENGTHS)[0]
    one, two = gradients(layer, output), gradients(layer, output)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_backward_passes_of_one_graph_in_several_threads() -> None:
    layer, x = make(hidden_size=32), data(20, 8, D)
    output = layer(x)[0]
    expected = [torch.autograd.grad(output[t].sum(), layer.cells["l0"].weight_hh, retain_graph=True) for t in range(8)]

    def work(t: int) -> Any:
        return torch.autograd.grad(output[t].sum(), layer.cells["l0"].weight_hh, retain_graph=True)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(8)))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(found, expected, strict=True))


@every_kind
def test_only_what_needs_a_gradient_has_one(kind: str) -> None:
    layer, x = make(kind), data(T, 2, D)
    whole = dict(zip([n for n, _ in layer.named_parameters()], gradients(layer, layer(x)[0]), strict=True))
    for wanted in ("cells.l0.weight_ih", "cells.l0.weight_hh", "cells.l0.bias_h"):
        for name, parameter in layer.named_parameters():
            parameter.requires_grad_(name == wanted)
        (found,) = torch.autograd.grad(layer(x)[0].square().sum(), [layer.get_parameter(wanted)])
        torch.testing.assert_close(found, whole[wanted])
    layer.requires_grad_(False)
    assert not layer(x)[0].requires_grad
    given = x.clone().requires_grad_()
    assert float(torch.autograd.grad(layer(given)[0].sum(), given)[0].abs().max()) > 0


@every_kind
def test_inference_mode_leaves_nothing_behind(kind: str) -> None:
    layer, x = make(kind, cache=1.0), data(T, 2, D)
    with torch.inference_mode():
        output = layer(x, keys=[0, 1])[0]
    assert not output.requires_grad
    after = layer(x, keys=[0, 1])[0]  # begins at solutions that were found in that mode
    assert layer.reports[0].evaluations.max() < 12
    fresh = make(kind)
    fresh.load_state_dict(layer.state_dict())
    torch.testing.assert_close(gradients(layer, after), gradients(fresh, fresh(x)[0]), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("gradient", [Unrolled(3), Phantom(3)], ids=["unrolled", "phantom"])
def test_unrolled_steps_leave_the_unsolved_at_their_best(gradient: Any) -> None:
    keywords: dict[str, Any] = {"solver": Tridiagonal(max_iterations=2), "tolerance": 1e-12}
    layer, x = make(gradient=gradient, **keywords), data(T, 2, D)
    with pytest.warns(NotConvergedWarning):
        output = layer(x, lengths=[8, 1])[0]
    with torch.no_grad():
        states = layer(x, lengths=[8, 1])[0]
    assert layer.reports[0].converged.tolist() == [False, True]
    assert torch.equal(output[:, 0], states[:, 0])
    given = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(layer(given, lengths=[8, 1])[0].sum(), given)
    assert found[:, 0].abs().max() == 0
    assert found[0, 1].abs().max() > 0


# Sizes, stencils and dtypes -------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("boundary", ["zero", "learned"])
def test_empty_batches_and_sequences(kind: str, boundary: str) -> None:
    layer = make(kind, boundary=boundary, num_layers=2)
    for shape, lengths in (((T, 0, D), None), ((T, 0, D), []), ((T, 2, D), [0, 0])):
        x = data(*shape).requires_grad_()
        output, _ = layer(x, lengths=lengths)
        assert output.shape == (*shape[:2], H)
        assert layer.converged() is None
        output.sum().backward()
        assert x.grad is not None
        assert x.grad.abs().sum() == 0


@every_kind
@pytest.mark.parametrize("stencil", [(-1,), (1,), (2,), (-51, 51), (-50, 50), (-100, 1), (-1, 1, 3)], ids=str)
def test_stencils_of_one_offset_and_beyond_the_sequence(kind: str, stencil: tuple[int, ...]) -> None:
    """Against the equation itself, position by position."""
    layer, x = make(kind, stencil=stencil, hidden_size=1, tolerance=1e-13), data(6, 2, D)
    z = torch.cat([s[:, :, 0] for s in layer(x, lengths=[6, 2], return_states=True)[2][0]], -1)
    cell = layer.cells["l0"]
    rule, zero = cell.prepare(), torch.zeros_like(z[0, :1])
    for b, n in enumerate([6, 2]):
        for t in range(n):
            near = tuple(z[t + j, b : b + 1] if 0 <= t + j < n else zero for j in stencil)
            value = rule.evaluate(cell.drive(x[t, b : b + 1]), near)
            torch.testing.assert_close(value, z[t, b : b + 1], rtol=1e-9, atol=1e-11)


@every_kind
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32)], ids=str)
def test_starts_of_another_dtype(kind: str, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    """The kernels read memory as the layer's dtype, so a start must have it."""
    own, other = dtypes
    layer, x = make(kind, dtype=own, tolerance=1e-5), data(T, 4, D).to(own)
    output, _, states = layer(x, lengths=LENGTHS, return_states=True)
    given = [tuple(s.detach().to(other) for s in trace) for trace in states]
    again, _ = layer(x, lengths=LENGTHS, start_states=given)
    assert again.dtype == own
    assert layer.reports[0].evaluations.max() <= 2
    torch.testing.assert_close(again, output, rtol=1e-3, atol=1e-4)


@every_kind
def test_autocast_and_half_precision_are_solved_or_flagged(kind: str) -> None:
    layer, x = make(kind, dtype=torch.float32, tolerance=None), torch.randn(T, 2, D)
    expected = layer(x)[0]
    with torch.autocast("cpu"):
        output = layer(x)[0]
    torch.testing.assert_close(output, expected, rtol=0.1, atol=0.05)
    output.sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())
    small = copy.deepcopy(layer).bfloat16()
    assert small(x.bfloat16())[0].dtype == torch.bfloat16
    assert small.reports[0].all_converged
    torch.testing.assert_close(small(x.bfloat16())[0].float(), expected, rtol=0.1, atol=0.05)


def test_layers_that_get_the_same_strategy_have_their_own_warm_starts() -> None:
    shared = autapse.unfold.Solve(cache=16.0, tolerance=autapse.solve.Tolerance(first=0.1, steps=5))
    first, second = (autapse.ImplicitGRU(3, 4, unfold=shared) for _ in range(2))
    first(torch.randn(5, 2, 3), keys=["a", "b"])
    assert len(first.strategy.solutions) == 2
    assert len(second.strategy.solutions) == 0
    assert (int(first.strategy.calls), int(second.strategy.calls)) == (1, 0)
    assert second.strategy.solver is shared.solver
    assert repr(second) == repr(first)


def test_layers_that_get_the_same_strategy_have_their_own_adjoint_reports() -> None:
    shared = autapse.unfold.Solve()
    first, second = (autapse.ImplicitGRU(3, 4, unfold=shared) for _ in range(2))
    output = first(torch.randn(5, 2, 3))[0]
    second(torch.randn(5, 3, 3))
    output.sum().backward()
    assert [len(report.converged) for report in first.adjoint_reports] == [2]
    assert second.adjoint_reports == []
