"""Equilibrium layers: layouts, reports in the caller's order, failures that are told, arguments."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

import autapse
from autapse import solve
from autapse.cells import EquilibriumRule, EquilibriumTanh, ImplicitMidpoint
from autapse.checks import InputError
from autapse.solve import NotConvergedWarning
from tolerance import close

D, H, T = 3, 4, 6
LENGTHS = [3, 6, 0, 5, 1]


def expanding(h: Tensor, previous: Tensor, x: Tensor) -> Tensor:
    """No equilibrium anywhere: h = h + 1."""
    return h + 1


@pytest.mark.parametrize("solver", [None, "inexact_newton"])
def test_every_step_solves_the_equation(solver: str | None) -> None:
    layer = autapse.Equilibrium(
        EquilibriumTanh, D, H, num_layers=2, bidirectional=True, dtype=torch.float64, solver=solver
    )
    x = torch.randn(T, 2, D, dtype=torch.float64)
    output, _, states = layer(x, return_states=True)
    V, W, b = (layer.cells["l0_reverse"].get_parameter(n) for n in ("weight_hh", "weight_ih", "bias_h"))
    h = states[0][0][:, :, 1]
    before = torch.cat([h[1:], torch.zeros_like(h[:1])])
    close(h, torch.tanh(h + before @ V.T + x @ W.T + b))
    close(output[..., H:], states[1][0][:, :, 1])
    assert len(layer.reports) == 4


def test_ragged_packed_and_alone_agree_in_states_and_reports() -> None:
    layer = autapse.ImplicitMidpoint(D, H, bidirectional=True, dtype=torch.float64, step=0.8, init_scale=2.0)
    x = 3 * torch.randn(T, len(LENGTHS), D, dtype=torch.float64)
    output, h_n = layer(x, lengths=LENGTHS)
    ragged = layer.reports
    assert len(ragged) == 2
    some = [n for n, length in enumerate(LENGTHS) if length]
    packed, packed_h = layer(pack_sequence([x[: LENGTHS[n], n] for n in some], enforce_sorted=False))
    close(pad_packed_sequence(packed)[0], output[:, some])
    close(packed_h, h_n[:, some])
    for theirs, ours in zip(layer.reports, ragged, strict=True):
        assert torch.equal(theirs.iterations, ours.iterations[some])
    for n, length in enumerate(LENGTHS):
        if not length:
            assert [int(r.iterations[n]) for r in ragged] == [0, 0]
            assert all(bool(r.converged[n]) for r in ragged)
            continue
        alone, _ = layer(x[:length, n : n + 1])
        close(alone[:, 0], output[:length, n])
        for report, one in zip(ragged, layer.reports, strict=True):
            assert int(report.iterations[n]) == int(one.iterations[0])
            assert float(report.evaluations[n]) == float(one.evaluations[0])


def test_a_report_sums_up_the_steps() -> None:
    layer = autapse.ImplicitMidpoint(D, H, dtype=torch.float64, step=0.8)
    x = torch.randn(T, 2, D, dtype=torch.float64)
    layer(x)
    rule, h = layer.cells["l0"], torch.zeros(2, H, dtype=torch.float64)
    worst, iterations = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.long)
    for x_t in x:
        previous = h.detach()
        h, report = rule.settle(previous, rule.drive(x_t), rule.prepare())
        size = (rule.phi(h, previous, rule.drive(x_t), rule.prepare()) - h).norm(dim=1) / h.norm(dim=1)
        worst, iterations = torch.maximum(worst, size.detach()), iterations + report.iterations
    (report,) = layer.reports
    assert torch.equal(report.iterations, iterations)
    torch.testing.assert_close(report.residual, worst, rtol=1e-2, atol=1e-15)
    assert report.finished_by == ("newton", "newton")
    assert not report.residual.requires_grad


def test_flags_reach_the_callers_sequence() -> None:
    layer = autapse.EquilibriumTanh(1, 1, bias=False, dtype=torch.float64)
    x = torch.ones(3, 4, 1, dtype=torch.float64)
    x[0, 2] = 0.0  # the only singular step
    layer(x, lengths=[1, 2, 3, 1])
    assert layer.reports[0].flagged.tolist() == [False, False, True, False]


def test_tolerance_is_kept() -> None:
    x = torch.randn(T, 3, D, dtype=torch.float64)
    loose = autapse.Equilibrium(ImplicitMidpoint, D, H, dtype=torch.float64, rtol=1e-3, solver="inexact_newton")
    loose(x)
    assert 1e-9 < float(loose.reports[0].residual.max()) <= 1e-3
    tight = autapse.Equilibrium(ImplicitMidpoint, D, H, dtype=torch.float64)
    tight(x)
    assert float(tight.reports[0].residual.max()) <= 2e-12
    assert tight.reports[0].iterations.max() <= 5 * T  # Newton


def test_float32_converges_by_default() -> None:
    for layer in (autapse.EquilibriumTanh(D, 32), autapse.EquilibriumLinear(D, 32), autapse.ImplicitMidpoint(D, 32)):
        layer(torch.randn(50, 8, D))
        assert layer.reports[0].all_converged
        assert layer.reports[0].residual.max() < 1e-5


def test_what_has_no_solution_is_kept_and_told_once() -> None:
    layer = autapse.Equilibrium(expanding, D, D, solver=solve.Newton(max_iterations=3))
    with pytest.warns(NotConvergedWarning, match=r"2 of 2 sequences did not converge.*iteration limit"):
        output, _ = layer(torch.randn(T, 2, D))
    assert output.shape == (T, 2, D)
    assert layer.reports[0].converged.tolist() == [False, False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(torch.randn(T, 2, D))


def test_a_cell_by_itself_tells_too() -> None:
    rule = autapse.Equilibrium(expanding, D, D).cells["l0"]
    with pytest.warns(NotConvergedWarning, match="1 of 1 steps did not converge"):
        rule(torch.randn(D))


@pytest.mark.parametrize("name", ["EquilibriumTanh", "EquilibriumLinear", "ImplicitMidpoint"])
def test_nan_stays_in_its_sequence(name: str) -> None:
    layer = getattr(autapse, name)(D, H, dtype=torch.float64)
    x = torch.randn(T, 3, D, dtype=torch.float64)
    clean, _ = layer(x)
    x[2, 1, 0] = torch.nan
    with pytest.warns(NotConvergedWarning, match="1 of 3 sequences"):
        output, _ = layer(x)
    assert output[2:, 1].isnan().any(-1).all()
    close(output[:, [0, 2]], clean[:, [0, 2]])
    close(output[:2, 1], clean[:2, 1])
    assert layer.reports[0].converged.tolist() == [True, False, True]


@pytest.mark.parametrize("step", [0.1, 2.0, 20.0])
def test_hard_steps_converge(step: float) -> None:
    layer = autapse.ImplicitMidpoint(D, 16, step=step, diffusion=0.0, init_scale=2.0, dtype=torch.float64)
    x = torch.randn(20, 8, D, dtype=torch.float64)
    layer(x)
    assert layer.reports[0].all_converged, layer.reports[0].words()


@pytest.mark.parametrize("every", [1, 4])
def test_checkpointing_gives_the_same_gradients(every: int) -> None:
    layer = autapse.ImplicitMidpoint(D, H, dtype=torch.float64)
    twin = autapse.ImplicitMidpoint(D, H, dtype=torch.float64, checkpoint_every=every)
    twin.load_state_dict(layer.state_dict())
    x = torch.randn(T, 3, D, dtype=torch.float64)
    for one in (layer, twin):
        one(x)[0].square().sum().backward()
    iterations = layer.reports[0].iterations
    assert torch.equal(twin.reports[0].iterations, iterations), "the backward pass adds nothing to the report"
    close([p.grad for p in twin.parameters()], [p.grad for p in layer.parameters()])


def test_an_instance_is_a_layer_of_its_own_sizes() -> None:
    rule = EquilibriumTanh(D, H, dtype=torch.float64)
    layer = autapse.Equilibrium(rule, batch_first=True)
    assert (layer.input_size, layer.hidden_size) == (D, H)
    assert layer.cells["l0"] is rule
    output, h_n = layer(torch.randn(2, T, D, dtype=torch.float64))
    close(output[:, -1], h_n[0])
    assert repr(layer) == "Equilibrium(EquilibriumTanh, 3, 4, batch_first=True)"


def test_the_command_line_trains_one(tmp_path: Any) -> None:
    from autapse.training import train
    from small import small_config

    summary = train(small_config(cell="equilibriumtanh:floor=0.01"), tmp_path / "run")
    assert summary["steps"] == 30


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: autapse.Equilibrium(autapse.cells.GRU, D, H),
            "rule must be an EquilibriumRule, its class, or a function",
        ),
        (lambda: autapse.Equilibrium(autapse.cells.GRU(D, H)), "Other cells are for Recurrent."),
        (lambda: autapse.Equilibrium(3, D, H), "rule must be an EquilibriumRule"),
        (lambda: autapse.Equilibrium(expanding), "input_size must be given with this kind of rule; got None."),
        (lambda: autapse.Equilibrium(EquilibriumTanh, D), "hidden_size must be given with this kind of rule"),
        (lambda: autapse.Equilibrium(expanding, D, D, num_layers=2), "must have one layer and one direction"),
        (lambda: autapse.Equilibrium(expanding, D, D, bidirectional=True), "Pass a subclass of autapse.cells.Equil"),
        (
            lambda: autapse.Equilibrium(EquilibriumTanh(D, H), 7),
            "input_size must be None or the rule's own, 3; got 7",
        ),
        (
            lambda: autapse.Equilibrium(EquilibriumTanh(D, H), floor=1.0),
            "options must be omitted if the rule is an instance",
        ),
        (
            lambda: autapse.EquilibriumTanh(D, H, unfold=autapse.unfold.Parallel()),
            "unfold must be None: EquilibriumTanh has the stencil (-1, 0)",
        ),
        (lambda: autapse.Equilibrium(EquilibriumTanh, D, H, flor=1.0), "Did you mean 'floor'?"),
        (lambda: autapse.Equilibrium(EquilibriumRule, D, H)(torch.zeros(1, 1, D)), "must define phi"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises((InputError, NotImplementedError), match=re.escape(message)):
        make()


class Stepping(ImplicitMidpoint):
    """A rule that adds something to each step."""

    def step(self, u: Tensor, state: Any, weights: Any, t: int) -> Any:
        (h,) = super().step(u, state, weights, t)
        return (h + t,)


def test_a_step_of_ones_own_is_what_a_layer_runs() -> None:
    layer = autapse.Equilibrium(Stepping, D, H, dtype=torch.float64)
    x, h = torch.randn(3, 2, D, dtype=torch.float64), torch.zeros(2, H, dtype=torch.float64)
    for t, x_t in enumerate(x):
        h = layer.cells["l0"](x_t, h, t)
    close(layer(x)[1][0], h)
