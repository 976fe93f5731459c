"""Figures of probes: what they show is what the probes found; labels, given axes, and files that can be written."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import autapse
from autapse import diagnostics as probes
from autapse.diagnostics import plots
from autapse.models import Classifier, Regressor

pytest.importorskip("matplotlib")

D, H = 2, 4
LENGTHS = [12, 5, 9]


def draw() -> torch.Tensor:
    return torch.randn(12, 3, D)


def gru() -> Any:
    return autapse.GRU(D, H)


def per_step() -> Any:
    return autapse.ERNN(D, H, inner_steps=2, eta="per_step", max_length=12)


def lesioned() -> Any:
    return probes.lesion(Classifier("gru", D, 3, hidden_size=H), draw().transpose(0, 1), lambda output: output.sum())


def surface() -> Any:
    layer, x = autapse.RNN(1, 1, bias=False), torch.ones(5, 1, 1)
    entries = ("weight_ih_l0", 0, 0), ("weight_hh_l0", 0, 0)
    loss: Callable[[Any], Any] = lambda layer: (layer(x)[1] - 0.5).square().sum()
    path = probes.gradient_path(layer, loss, *entries, start=(0.5, 0.5), steps=3)
    return probes.loss_surface(layer, loss, *entries, points=4), {"plain": path}


# The function, what it draws, and the labels of its axes.
FIGURES: list[tuple[str, Callable[[], tuple[Any, ...]], str, str]] = [
    ("draw_spectrum", lambda: (probes.jacobian_spectrum(gru(), draw(), LENGTHS),), "real part", "imaginary part"),
    (
        "draw_gradient_flow",
        lambda: (probes.gradient_flow(gru(), draw(), LENGTHS),),
        "lag (steps)",
        "gain of a gradient",
    ),
    (
        "draw_loss_gradient",
        lambda: (
            probes.loss_gradient(
                Regressor("gru", D, 1, hidden_size=H, num_layers=2), draw().transpose(0, 1), torch.sum, LENGTHS
            ),
        ),
        "step",
        "norm of ∂L/∂h_t",
    ),
    (
        "draw_lyapunov",
        lambda: (probes.lyapunov_exponents(gru(), draw()),),
        "number",
        "Lyapunov exponent (nats per step)",
    ),
    ("draw_linear_memory", lambda: (probes.linear_memory(gru(), draw()),), "lag (steps)", "R² of a linear reading"),
    ("draw_loss_surface", surface, "weight_ih_l0[0, 0]", "weight_hh_l0[0, 0]"),
    ("draw_estimation", lambda: (probes.iterative_estimation(gru(), draw(), LENGTHS),), "step", "mean of h_t − h_T"),
    ("draw_gates", lambda: (probes.dual_gates(gru(), draw(), LENGTHS),), "step", "mean gate; contribution of the step"),
    ("draw_lesion", lambda: (lesioned(),), "step that is changed", "score"),
    (
        "draw_discrimination",
        lambda: (probes.discrimination(gru(), draw(), [0, 1, 0]),),
        "step",
        "distance within / between classes",
    ),
    (
        "draw_weight_distance",
        lambda: (probes.weight_distance([gru().state_dict() for _ in range(3)]),),
        "record (epoch)",
        "distance to the last weights",
    ),
    ("draw_saturation", lambda: (probes.saturation(gru(), draw()),), "unit, in order", "share of steps"),
    (
        "draw_solves",
        lambda: (probes.implicit_solves(autapse.ImplicitGRU(D, H), draw(), iterations=3),),
        "iteration",
        "relative residual",
    ),
    (
        "draw_spread",
        lambda: (probes.implicit_spread(gru(), draw(), position=4),),
        "offset from the changed input (steps)",
        "change of the output",
    ),
    ("draw_units", lambda: (probes.iterative_estimation(gru(), draw()).to_end_units,), "step", "unit"),
    ("draw_phase", lambda: (probes.phase_portrait(autapse.Antisymmetric(1, 2)),), "unit 1", "unit 2"),
    ("draw_fixed_points", lambda: (probes.fixed_points(gru(), draw(), starts=4),), "real part", "imaginary part"),
    (
        "draw_sensitivity",
        lambda: (probes.sensitivity(autapse.Antisymmetric(D, H), draw(), LENGTHS),),
        "time t = n·ε",
        "size of ∂h(t)/∂h(0)",
    ),
    (
        "draw_convergence",
        lambda: (probes.convergence_order(autapse.cells.Antisymmetric(D, H), torch.ones(1, D), halvings=2),),
        "step size ε",
        "error",
    ),
    ("draw_phi", lambda: (probes.phi_curve(),), "α", "equilibrium; derivative"),
    ("draw_alignment", lambda: (probes.alignment(per_step()),), "real part", "imaginary part"),
    (
        "draw_inner_residuals",
        lambda: (probes.inner_residuals(per_step(), draw()),),
        "inner step k",
        "residual ‖φ(z) − z‖",
    ),
    ("draw_rates", lambda: (probes.learned_rates(per_step()),), "step", "learned η"),
]


@pytest.mark.parametrize(("name", "make", "xlabel", "ylabel"), FIGURES, ids=[figure[0] for figure in FIGURES])
def test_every_figure_has_labels_and_takes_axes(name: str, make: Any, xlabel: str, ylabel: str) -> None:
    function, arguments = getattr(plots, name), make()
    axes = function(*arguments)
    assert (axes.get_xlabel(), axes.get_ylabel()) == (xlabel, ylabel)
    given = plots.new_figure(4, 3).subplots()
    assert function(*arguments, axes=given) is given
    buffer = io.BytesIO()
    given.figure.savefig(buffer, format="svg")
    assert len(buffer.getvalue()) > 2000


def test_every_drawing_function_is_tested() -> None:
    others = {"draw_attention", "draw_memory", "draw_svg"}  # in files of their own
    assert {name for name in plots.__all__ if name.startswith("draw_")} - others == {name for name, *_ in FIGURES}


def test_the_curves_are_the_numbers() -> None:
    flow = probes.gradient_flow(gru(), draw(), LENGTHS)
    axes = plots.draw_gradient_flow(flow, label="gru", singular=True)
    first, largest, _ = axes.get_lines()
    np.testing.assert_allclose(first.get_ydata(), flow.typical)
    np.testing.assert_allclose(largest.get_ydata(), np.nanmedian(flow.singular_values[:, :, 0], axis=1))
    assert axes.get_yscale() == "log"
    assert axes.get_legend().get_texts()[0].get_text() == "gru"
    memory = probes.linear_memory(gru(), draw())
    lines = plots.draw_linear_memory(memory).get_lines()
    np.testing.assert_allclose(lines[1].get_ydata(), np.clip(memory.r2[:, 1], 0, 1))
    found = probes.iterative_estimation(gru(), draw())
    np.testing.assert_allclose(plots.draw_estimation(found, change=True).get_lines()[0].get_ydata(), found.change)
    rates = probes.learned_rates(per_step())
    np.testing.assert_allclose(plots.draw_rates(rates).get_lines()[0].get_ydata(), rates.eta[:, 0])


def silent() -> Any:
    """A network whose state is always zero."""
    layer = autapse.RNN(D, H, nonlinearity="relu")
    for parameter in layer.parameters():
        parameter.data.zero_()
    return layer


@pytest.mark.parametrize("x", [torch.randn(1, 1, D), torch.randn(9, 1, D), torch.zeros(20, 3, D)], ids=["1", "9", "0"])
@pytest.mark.parametrize("layer", [silent(), autapse.ImplicitGRU(D, H), autapse.Antisymmetric(D, H, bias=False)])
def test_what_does_not_move_can_be_drawn_too(layer: Any, x: torch.Tensor) -> None:
    """One step, one sequence, no input, no change: warnings are errors."""
    drawn = [plots.draw_spread(probes.implicit_spread(layer, x, position=0))]
    if layer.looks_ahead:
        drawn.append(plots.draw_solves(probes.implicit_solves(layer, x, iterations=1)))
    else:
        drawn.append(plots.draw_lyapunov(probes.lyapunov_exponents(layer, x)))
        drawn.append(plots.draw_gradient_flow(probes.gradient_flow(layer, x), singular=True))
        if len(x) > 1:
            portrait = probes.phase_portrait(layer, x)
            assert np.ptp(portrait.grid[..., 0]) > 0
            drawn.append(plots.draw_phase(portrait))
    for axes in drawn:
        assert plots.saved(axes.figure, format="png")


def test_two_networks_on_the_same_axes_have_different_colours() -> None:
    axes = plots.new_figure(4, 3).subplots()
    for name in ("first", "second"):
        plots.draw_gradient_flow(probes.gradient_flow(gru(), draw()), axes, name)
    colours = [line.get_color() for line in axes.get_lines()]
    assert len(set(colours)) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["first", "second"]


def test_arrows_of_a_portrait() -> None:
    portrait = probes.phase_portrait(autapse.Antisymmetric(1, 2), grid=4)
    axes = plots.draw_phase(portrait, title="two units")
    arrows = axes.collections[0]
    np.testing.assert_allclose(arrows.U.reshape(4, 4), portrait.arrows[..., 0])
    assert axes.get_title() == "two units"
