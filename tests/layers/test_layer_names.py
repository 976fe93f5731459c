"""Layers by the names that the command line and the recipes spell."""

from __future__ import annotations

import re
from typing import Any

import pytest

import autapse
from autapse.checks import InputError
from autapse.layers.names import LAYERS, make_layer, parse_cell
from networks import BASIC, SOLVED, D, H


def test_every_layer_has_its_name() -> None:
    step_by_step = {network.name.lower(): network.layer_class for network in [*BASIC, *SOLVED]}
    assert step_by_step | {"implicitgru": autapse.ImplicitGRU, "implicitlstm": autapse.ImplicitLSTM} == LAYERS


@pytest.mark.parametrize(
    ("spec", "name", "options"),
    [
        ("gru", "GRU", {}),
        ("LSTM", "LSTM", {}),
        ("rin:transitions=2", "RIN", {"transitions": 2}),
        ("antisymmetric:step=0.5:gated=true", "Antisymmetric", {"step": 0.5, "gated": True}),
        ("ernn:eta=per_step:max_length=9", "ERNN", {"eta": "per_step", "max_length": 9}),
        ("ernn:alignment=none", "ERNN", {"alignment": "none"}),
        ("lstm:forget_bias=none", "LSTM", {"forget_bias": None}),
        ("leakyrnn:tau=(2.0,50.0):learn_tau=True", "LeakyRNN", {"tau": (2.0, 50.0), "learn_tau": True}),
        ("gru:reset=before", "GRU", {"reset": "before"}),
    ],
)
def test_specs(spec: str, name: str, options: dict[str, Any]) -> None:
    layer_class, found = parse_cell(spec)
    assert (layer_class.__name__, found) == (name, options)
    assert repr(make_layer(spec, D, H, num_layers=2)) == repr(layer_class(D, H, num_layers=2, **options))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grru", "cell must be one of rnn, irnn, "),
        ("grru", "got 'grru'. Did you mean 'gru'?"),
        ("", "cell must be one of rnn, irnn, "),
        ("rin:transition=2", "cell must be rin with options from: transitions, as in rin:option=value; got "),
        ("rin:transition=2", "got 'rin:transition=2'. Did you mean 'transitions'?"),
        ("rin:transitions", "cell must be rin with options from: transitions, as in rin:option=value; got "),
        ("irnn:a=1", "cell must be irnn with options from: none, as in irnn:option=value; got 'irnn:a=1'."),
        ("rin:transitions=two", "transitions must be an integer of at least 1; got 'two'."),
        ("rin:bias=False", "got 'rin:bias=False'."),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make_layer(spec, D, H)
