"""Every wrong option of a cell: the message names the argument, its rule and the value."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import autapse
from autapse.checks import InputError, KindError, ShapeError
from networks import D, H

BAD_OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("RNN", {"nonlinearity": "tan"}, "nonlinearity must be one of tanh, relu, sigmoid, identity; got 'tan'. "
                                     "Did you mean 'tanh'?"),
    ("RNN", {"nonlinearity": None}, "nonlinearity must be one of tanh, relu, sigmoid, identity; got None."),
    ("FastRNN", {"nonlinearity": "modrelu"}, "nonlinearity must be one of .*, identity; got 'modrelu'"),
    ("RIN", {"transitions": 0}, "transitions must be an integer of at least 1; got 0."),
    ("RIN", {"transitions": 1.5}, "transitions must be an integer of at least 1; got 1.5."),
    ("LSTM", {"peepholes": 1}, "peepholes must be True, False or 'old'; got 1."),
    ("LSTM", {"peepholes": "new"}, "peepholes must be True, False or 'old'; got 'new'."),
    ("LSTM", {"longest": 2}, "longest must be an integer of at least 3; got 2."),
    ("LSTM", {"longest": 9, "bias": False}, "longest must be used with bias=True; got 9. Omit one of the two."),
    ("LSTM", {"longest": 9, "forget_bias": 1.0}, "longest must be used without forget_bias: .*; got 9."),
    ("GRU", {"gates": "global"}, "gates must be one of local, shared-reset, global-local; got 'global'."),
    ("GRU", {"longest": 9.5}, "longest must be an integer of at least 3; got 9.5."),
    ("GRU", {"longest": 9, "gates": "global-local"}, "longest must be None for global-local gates, .*; got 9."),
    ("LSTM", {"forget_bias": "1"}, "forget_bias must be a finite number; got '1'."),
    ("LSTM", {"forget_bias": float("nan")}, "forget_bias must be a finite number; got nan."),
    ("LSTM", {"forget_bias": 1.0, "bias": False}, "forget_bias must be used with bias=True; got 1.0."),
    ("LSTM", {"proj_size": -1}, "proj_size must be an integer of at least 0; got -1."),
    ("LSTM", {"proj_size": H}, f"proj_size must be smaller than hidden_size = {H}; got {H}."),
    ("GRU", {"reset": "Before"}, "reset must be one of after, before; got 'Before'. Did you mean 'before'?"),
    ("FastGRNN", {"input_rank": 0}, "input_rank must be an integer of at least 1; got 0."),
    ("FastGRNN", {"input_rank": D + 1}, f"input_rank must be at most {D}, the rank of the full matrix; got {D + 1}."),
    ("FastGRNN", {"hidden_rank": H + 1}, f"hidden_rank must be at most {H}, the rank of the full matrix; got {H + 1}."),
    ("Antisymmetric", {"step": 0.0}, "step must be a finite number above 0; got 0.0."),
    ("Antisymmetric", {"step": -0.1}, "step must be a finite number above 0; got -0.1."),
    ("Antisymmetric", {"diffusion": -0.1}, "diffusion must be a finite number at least 0; got -0.1."),
    ("Antisymmetric", {"diffusion": "a"}, "diffusion must be a finite number at least 0; got 'a'."),
    ("Antisymmetric", {"gated": "yes"}, "gated must be True or False; got 'yes'."),
    ("Antisymmetric", {"structured": 0}, "structured must be True or False; got 0."),
    ("Antisymmetric", {"init_scale": -1}, "init_scale must be a finite number at least 0; got -1"),
    ("ERNN", {"inner_steps": 0}, "inner_steps must be an integer of at least 1; got 0."),
    ("ERNN", {"eta": "per-step"}, "eta must be one of shared, per_step; got 'per-step'. Did you mean 'per_step'?"),
    ("ERNN", {"eta": 0.1}, "eta must be one of shared, per_step; got 0.1."),
    ("ERNN", {"eta": "per_step"}, 'max_length must be given with eta="per_step"; got None.'),
    ("ERNN", {"max_length": 5}, 'max_length must be used with eta="per_step" only; got 5.'),
    ("ERNN", {"eta": "per_step", "max_length": 0}, "max_length must be an integer of at least 1; got 0."),
    ("ERNN", {"alignment": "first"}, "alignment must be one of first_order, exact, none; got 'first'."),
    ("ERNN", {"nonlinearity": "rely"}, "nonlinearity must be one of .*; got 'rely'. Did you mean 'relu'?"),
    ("OrthogonalRNN", {"parametrization": "expm"}, "parametrization must be one of exp, cayley, rotations; got 'expm'. "
                                                   "Did you mean 'exp'?"),
    ("OrthogonalRNN", {"capacity": 3}, 'capacity must be used with parametrization="rotations"; got 3.'),
    ("OrthogonalRNN", {"parametrization": "rotations", "capacity": 0}, "capacity must be an integer of at least 1"),
    ("OrthogonalRNN", {"nonlinearity": "modReLU"}, "nonlinearity must be one of modrelu, tanh, .*; got 'modReLU'. "
                                                   "Did you mean 'modrelu'?"),
    ("SpectralRNN", {"radius": 1.5}, "radius must be a finite number at least 0 and at most 1; got 1.5."),
    ("SpectralRNN", {"radius": -0.1}, "radius must be a finite number at least 0 and at most 1; got -0.1."),
    ("SpectralRNN", {"reflections": 0}, "reflections must be an integer of at least 1; got 0."),
    ("SpectralRNN", {"reflections": H + 1}, f"reflections must be at most hidden_size = {H}; got {H + 1}."),
    ("SpectralRNN", {"nonlinearity": "modrelu"}, "nonlinearity must be one of tanh, .*; got 'modrelu'"),
    ("LeakyRNN", {"tau": 0.5}, "tau must be a finite number at least 1; got 0.5."),
    ("LeakyRNN", {"tau": float("inf")}, "tau must be a finite number at least 1; got inf."),
    ("LeakyRNN", {"tau": "10"}, "tau must be a finite number at least 1; got '10'."),
    ("LeakyRNN", {"tau": 1.0, "learn_tau": True}, "tau must be a finite number above 1; got 1.0. Learned time"),
    ("LeakyRNN", {"tau": (5.0, 2.0)}, r"tau must be a number, a tensor, a pair \(low, high\).*got \(5.0, 2.0\)"),
    ("LeakyRNN", {"tau": (1.0,)}, r"tau must be a number, .*; got \(1.0,\)."),
    ("LeakyRNN", {"tau": (1.0,) * (H + 1)}, f"tau must have at most one value per unit, {H} in all; got"),
    ("LeakyRNN", {"form": "leaky"}, "form must be one of state, pre-activation, sum; got 'leaky'."),
    ("LeakyRNN", {"groups": 2}, r"groups must be None unless tau is a pair \(low, high\); got 2."),
    ("LeakyRNN", {"tau": (1.0, 9.0), "groups": 1}, "groups must be an integer of at least 2; got 1."),
    ("LeakyRNN", {"tau": (1.0, 9.0), "groups": H + 1}, f"groups must be at most hidden_size = {H}; got {H + 1}."),
    ("Clockwork", {"periods": (1, 0)}, "periods must be an integer of at least 1; got 0."),
    ("Clockwork", {"periods": (1, 2.5)}, "periods must be an integer of at least 1; got 2.5."),
    ("Clockwork", {"periods": ()}, r"periods must be a list of steps, as in \(1, 2, 4, 8\); got \(\)."),
    ("Clockwork", {"periods": (1,) * (H + 1)}, f"periods must be at most as many as units, {H}; got"),
    ("Clockwork", {"nonlinearity": "modrelu"}, "nonlinearity must be one of tanh, relu, sigmoid, identity; got"),
    ("TimeDelay", {"window": 1}, "window must be an integer of at least 2; got 1. For a window of 1, use feedforward."),
    ("TimeDelay", {"depth": 0}, "depth must be an integer of at least 1; got 0."),
    ("Delayed", {"delays": 3}, r"delays must be a list of steps, as in \(1, 8\); got 3."),
    ("Delayed", {"delays": (1, 0)}, "delays must be an integer of at least 1; got 0."),
    ("Delayed", {"delays": (1, 2.5)}, "delays must be an integer of at least 1; got 2.5."),
    ("Delayed", {"delays": (2, 2)}, r"delays must have each delay once; got \(2, 2\)."),
    ("Delayed", {"delays": (1,)}, r"delays must have a delay above 1; got \(1,\). Without one, use the cell itself."),
    ("Delayed", {"delays": tuple(range(1, 40))}, "delays must be at most 32, of at most 1048576 steps; got"),
    ("Delayed", {"cell": "gru"}, "cell must have the leaky form, .*; got 'gru'. Try rnn, irnn,"),
    ("Delayed", {"cell": "leakyrnn:form=pre-activation"}, "cell must have the leaky form"),
    ("Delayed", {"cell": "ernn:inner_steps=2", "delays": (2, 3)}, "delays must have the delay 1 for ernn:inner_"),
    ("LeakyRNN", {"tau": (0.1, 2.0)}, "tau must be a finite number at least 1; got 0.1."),
    ("LeakyRNN", {"tau": (2.0, "a")}, "tau must be a finite number at least 1; got 'a'."),
    ("LeakyRNN", {"tau": torch.ones(H + 1)}, rf"tau must have one value per unit, shape \({H},\); got \({H + 1},\)."),
    ("LeakyRNN", {"tau": torch.tensor([2.0, 2, 2, 0.5])}, "tau must be a finite number at least 1; got 0.5."),
    ("LeakyRNN", {"tau": torch.tensor([2.0, 2, 2, torch.inf])}, "tau must be a finite number at least 1; got inf."),
    ("LeakyRNN", {"tau": torch.tensor([2.0, 2, 2, torch.nan])}, "tau must be a finite number at least 1; got nan."),
    ("LeakyRNN", {"learn_tau": "no"}, "learn_tau must be True or False; got 'no'."),
    ("GRU", {"bias": 1}, "bias must be True or False; got 1."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "message"), BAD_OPTIONS, ids=[f"{n}-{o}" for n, o, _ in BAD_OPTIONS])
def test_bad_option(name: str, options: dict[str, Any], message: str) -> None:
    # Where a message is no pattern of its own, its parentheses and dots stand for themselves.
    pattern = message if "\\" in message or ".*" in message else re.escape(message)
    for owner in (autapse.cells, autapse):  # the cell, and the layer that passes options on to it
        with pytest.raises(InputError, match=pattern):
            getattr(owner, name)(D, H, **options)


@pytest.mark.parametrize(
    ("sizes", "kind", "message"),
    [
        ((0, H), InputError, "input_size must be an integer of at least 1; got 0."),
        ((D, -1), InputError, "hidden_size must be an integer of at least 1; got -1."),
        ((2.5, H), KindError, "input_size must be an integer of at least 1; got 2.5."),
        ((D, True), KindError, "hidden_size must be an integer of at least 1; got True."),
    ],
)
def test_bad_sizes(sizes: tuple[Any, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        autapse.cells.GRU(*sizes)


@pytest.mark.parametrize("shape", [(H,), (2, H), (2, 3, D), ()])
@pytest.mark.parametrize("method", ["forward", "jacobian"])
def test_bad_input(method: str, shape: tuple[int, ...]) -> None:
    message = f"x_t must have shape (B, input_size) or (input_size,) with input_size = {D}; got {shape}."
    with pytest.raises(ShapeError, match=re.escape(message)):
        getattr(autapse.cells.RIN(D, H), method)(torch.zeros(shape))


@pytest.mark.parametrize("shape", [(H,), (3, H), (2, H + 1)])
@pytest.mark.parametrize("method", ["forward", "jacobian"])
def test_bad_state(method: str, shape: tuple[int, ...]) -> None:
    message = f"state must have the shapes {[(2, H)]}; got {[shape]}. Pass None for zeros."
    with pytest.raises(ShapeError, match=re.escape(message)):
        getattr(autapse.cells.RIN(D, H), method)(torch.zeros(2, D), torch.zeros(shape))


def test_missing_state() -> None:
    message = f"state must have the shapes {[(2, H), (2, H)]}; got {[(2, H)]}."
    with pytest.raises(ShapeError, match=re.escape(message)):
        autapse.cells.LSTM(D, H)(torch.zeros(2, D), torch.zeros(2, H))


def test_unknown_option_of_a_cell() -> None:
    with pytest.raises(TypeError, match="transition"):
        autapse.cells.RIN(D, H, transition=2)


def test_a_cell_without_step_says_what_is_missing() -> None:
    class Empty(autapse.Cell):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define step\(u, state, weights, t\)"):
        Empty(D, H)(torch.zeros(2, D))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (autapse.cells.RIN(D, H), f"RIN({D}, {H})"),
        (autapse.cells.RIN(D, H, bias=False, transitions=2), f"RIN({D}, {H}, bias=False, transitions=2)"),
        (autapse.cells.Antisymmetric(D, H, step=0.5), f"Antisymmetric({D}, {H}, step=0.5)"),
        (autapse.cells.LeakyRNN(D, H, tau=torch.ones(H)), f"LeakyRNN({D}, {H}, tau=({H},))"),
        (autapse.cells.LSTM(D, H, forget_bias=1), f"LSTM({D}, {H}, forget_bias=1.0)"),
    ],
)
def test_repr_shows_what_differs_from_the_defaults(cell: autapse.Cell, expected: str) -> None:
    assert repr(cell) == expected


RESERVED = ("rates", "one_step", "take_steps", "advance", "rule", "prepare", "state_sizes")
VALUES = {"parameter": lambda: torch.nn.Parameter(torch.zeros(2)), "module": lambda: torch.nn.Linear(2, 2)}


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("value", VALUES)
def test_a_weight_cannot_have_the_name_of_a_method(name: str, value: str) -> None:
    class Half(autapse.cells.EquilibriumRule):
        def __init__(self, *sizes: int, **keywords: Any) -> None:
            super().__init__(*sizes, **keywords)
            setattr(self, name, VALUES[value]())

        def phi(self, h: Any, previous: Any, u: Any, weights: Any) -> Any:
            return torch.tanh(0.5 * h + previous + u)

    words = f"^{name} must be the method or property of Half; got '(Parameter|Linear)'. The name {name} is reserved"
    with pytest.raises(InputError, match=words):
        autapse.Equilibrium(Half, D, H)


def test_a_number_cannot_replace_a_method() -> None:
    cell = autapse.cells.RNN(D, H)
    with pytest.raises(InputError, match=r"^advance must be the method .* got 'float'. The name advance is reserved"):
        cell.advance = 0.5  # type: ignore[assignment, method-assign]
