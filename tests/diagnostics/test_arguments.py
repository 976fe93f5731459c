"""Wrong objects: every argument of every probe and of every figure gets them, and answers in one line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import autapse
from autapse import diagnostics as probes
from autapse.checks import InputError
from autapse.diagnostics import plots
from autapse.diagnostics.contraction import contraction
from autapse.models import Classifier, Regressor
from diagnostics.test_probe_plots import FIGURES

D, H = 2, 4
ENTRIES: dict[str, Any] = {"first": ("weight_ih_l0", 0, 0), "second": ("weight_hh_l0", 0, 0)}


def x() -> torch.Tensor:
    return torch.randn(12, 3, D)


def per_step() -> Any:
    return autapse.ERNN(D, H, inner_steps=2, eta="per_step", max_length=12)


def last(layer: Any) -> torch.Tensor:
    return layer(torch.ones(5, 1, 1))[1].square().sum()


def recurrent(**more: Any) -> dict[str, Any]:
    return {"network": autapse.GRU(D, H), "x": x(), **more}


def modelled(kind: Any, **more: Any) -> dict[str, Any]:
    return {"model": kind("gru", D, 1, hidden_size=H), "x": x().transpose(0, 1), **more}


# Every probe with arguments that are right.
RIGHT: dict[Callable[..., Any], Callable[[], dict[str, Any]]] = {
    probes.trajectory: recurrent,
    probes.jacobian_spectrum: recurrent,
    probes.gradient_flow: recurrent,
    probes.lyapunov_exponents: recurrent,
    probes.linear_memory: recurrent,
    probes.saturation: recurrent,
    probes.iterative_estimation: recurrent,
    probes.dual_gates: recurrent,
    probes.implicit_spread: recurrent,
    probes.phase_portrait: recurrent,
    probes.fixed_points: lambda: recurrent(starts=2),
    probes.discrimination: lambda: recurrent(classes=[0, 1, 0]),
    probes.implicit_solves: lambda: {"network": autapse.ImplicitGRU(D, H), "x": x(), "iterations": 1},
    probes.sensitivity: lambda: {"network": autapse.Antisymmetric(D, H), "x": x()},
    probes.convergence_order: lambda: {
        "network": autapse.Antisymmetric(D, H),
        "x": torch.ones(1, D),
        "h0": torch.zeros(1, H),
        "halvings": 1,
    },
    probes.inner_residuals: lambda: {"rule": per_step(), "x": x()},
    contraction: lambda: {"rule": per_step().cells["l0"], "x": x()},
    probes.memory_trace: lambda: {"network": autapse.Memory(D, H, slots=3, width=2), "x": x()},
    probes.alignment: lambda: {"network": per_step()},
    probes.learned_rates: lambda: {"network": per_step()},
    probes.phi_curve: dict,
    probes.shortest_path: lambda: {"layer": autapse.GRU(D, H), "lag": 3},
    probes.loss_gradient: lambda: modelled(Regressor, loss=torch.sum),
    probes.lesion: lambda: modelled(Classifier, score=torch.sum),
    probes.diagnose: lambda: modelled(Regressor, loss=torch.sum, score=torch.sum, budget=0.3),
    probes.weight_distance: lambda: {"records": [autapse.GRU(D, H).state_dict()] * 2},
    probes.WeightRecorder: lambda: {"module": autapse.GRU(D, H)},
    probes.loss_surface: lambda: {"module": autapse.RNN(1, 1), "loss": last, "points": 2, **ENTRIES},
    probes.gradient_path: lambda: {
        "module": autapse.RNN(1, 1),
        "loss": last,
        "start": (0.5, 0.5),
        "steps": 1,
        **ENTRIES,
    },
}
# A function that is given is called, and its own errors stay.
WRONG: dict[str, Any] = {
    "None": None,
    "text": "abc",
    "object": object(),
    "fraction": 1.5,
    "negative": -1,
    "empty list": [],
    "list": ["a"],
    "table": {"a": 1},
    "NaN": float("nan"),
    "tensor": torch.ones(5),
    "no numbers": torch.empty(0),
    "module of torch": torch.nn.Bilinear(2, 2, 2),
}


def refused(call: Callable[..., Any], right: dict[str, Any], argument: str, wrong: Any) -> bool:
    """Whether the call ends with an error of one line about that argument or another one. Other errors pass through."""
    message = ""
    try:
        call(**{**right, argument: wrong})
    except InputError as error:
        message = str(error)
    assert not message or re.fullmatch(r"[a-z_0-9]+ must .+; got .+\..*", message), "not one line of the usual form"
    return bool(message)


@pytest.mark.parametrize("probe", RIGHT, ids=lambda probe: probe.__name__)
def test_a_probe_refuses_wrong_objects(probe: Callable[..., Any]) -> None:
    right = RIGHT[probe]()
    probe(**right)
    for name, parameter in inspect.signature(probe).parameters.items():
        called = name in ("loss", "score", "notify")
        tried = {
            label: wrong
            for label, wrong in WRONG.items()
            if not (called and callable(wrong)) and not (wrong is None and parameter.default is None)
        }
        answers = {label: refused(probe, right, name, wrong) for label, wrong in tried.items()}
        assert answers["object"], f"{name} took an object without any meaning"
        if parameter.default is inspect.Parameter.empty:
            assert answers["None"], f"{name} is needed"
        if called:
            assert all(answers.values()), answers


def test_every_probe_is_tried() -> None:
    public = {name for name in probes.__all__ if inspect.isfunction(getattr(probes, name))} | {"WeightRecorder"}
    assert public | {"contraction"} == {probe.__name__ for probe in RIGHT}


@pytest.mark.parametrize(("name", "make"), [figure[:2] for figure in FIGURES], ids=[figure[0] for figure in FIGURES])
def test_a_figure_refuses_wrong_objects(name: str, make: Any) -> None:
    pytest.importorskip("matplotlib")
    function, arguments = getattr(plots, name), make()
    first, *more = inspect.signature(function).parameters
    right = dict(zip([first, *more], arguments, strict=False))
    other = probes.learned_rates(per_step()) if name == "draw_phi" else probes.phi_curve()  # of another probe
    for label, wrong in {**WRONG, "other result": other}.items():
        assert refused(function, right, first, wrong), f"{first}: {label}"
    figure = plots.new_figure(4, 3)
    several = figure.subplots(1, 2)
    for wrong in ("abc", 3, figure, several, other):
        assert refused(function, right, "axes", wrong), f"axes: {wrong}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: probes.loss_gradient(**modelled(Regressor, loss=None)),
            "loss must be a function of the output; got None. Pass a function, as in loss=lambda output: ...",
        ),
        (
            lambda: probes.loss_surface(autapse.RNN(1, 1), None, **ENTRIES),  # type: ignore[arg-type]
            "loss must be a function of the module; got None. Pass a function, as in loss=lambda module: ...",
        ),
        (
            lambda: plots.draw_gradient_flow(probes.phi_curve()),  # type: ignore[arg-type]
            "flow must be of type GradientFlow; got 'PhiCurve'. Pass the result of gradient_flow.",
        ),
        (
            lambda: plots.draw_phi(probes.phi_curve(), axes=np.array([1])),
            "axes must be of type Axes; got 'ndarray'. Pass axes of matplotlib; if you have several, one of them, as",
        ),
        (
            lambda: plots.draw_loss_surface(
                probes.loss_surface(autapse.RNN(1, 1), last, **ENTRIES, points=2),
                {"plain": 3},  # type: ignore[dict-item]
            ),
            "paths must be of type GradientPath; got 'int'. Pass results of gradient_path by name.",
        ),
        (lambda: plots.draw_svg("abc"), "panels must be of type Panel; got 'str'. Pass a list of Panel."),  # type: ignore[arg-type]
        (lambda: plots.draw_attention([["a"]]), "weights must have numbers in rows and columns; got 'list'."),
        (
            lambda: plots.draw_memory(probes.memory_trace(**RIGHT[probes.memory_trace]()), sequence=3),
            "sequence must be an integer of at least 0 and at most 2; got 3.",
        ),
        (
            lambda: plots.draw_memory(probes.gradient_flow(**recurrent())),  # type: ignore[arg-type]
            "trace must be of type MemoryTrace; got 'GradientFlow'. Pass the result of memory_trace.",
        ),
    ],
)
def test_the_message_has_argument_rule_value_and_remedy(make: Any, message: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match=re.escape(message)):
        make()
