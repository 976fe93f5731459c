"""Layers by the names that the command line and the recipes spell."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import autapse
from autapse.checks import InputError
from autapse.layers.registry import LAYERS, foreign_module, make_layer, offered, parse_network, spec_of
from networks import BASIC, BESIDE_MEMORY, COMPOSED, IN_PARTS, POINTWISE, SOLVED, STEPPED, D, H
from own_cells import NAME, write_module, write_package


def test_every_layer_has_its_name() -> None:
    networks = [*BASIC, *SOLVED, *COMPOSED, *IN_PARTS, *POINTWISE, *STEPPED, *BESIDE_MEMORY]
    step_by_step = {network.name.lower(): network.layer_class for network in networks}
    apart = (autapse.Liquid, autapse.ImplicitGRU, autapse.ImplicitLSTM)
    others = {kind.__name__.lower(): kind for kind in apart}
    assert step_by_step | others == LAYERS


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
        ("deep:cell=gru:transition_depth=2:skip=true", "Deep", {"cell": "gru", "transition_depth": 2, "skip": True}),
        (
            "deep:cell=(ernn:inner_steps=2:alignment=none):width=5:input_depth=1",
            "Deep",
            {"cell": (autapse.cells.ERNN, {"inner_steps": 2, "alignment": "none"}), "width": 5, "input_depth": 1},
        ),
        (
            "deep:cell=(deep:cell=(gru:reset=before))",
            "Deep",
            {"cell": (autapse.cells.Deep, {"cell": (autapse.cells.GRU, {"reset": "before"})})},
        ),
        (
            "deep:cell=(leakyrnn:tau=(2.0,50.0))",
            "Deep",
            {"cell": (autapse.cells.LeakyRNN, {"tau": (2.0, 50.0)})},
        ),
    ],
)
def test_specs(spec: str, name: str, options: dict[str, Any]) -> None:
    layer_class, found = parse_network(spec)
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
        ("deep:cell=grru", "cell must be one of rnn, irnn, "),
        ("deep:cell=(grru)", "got 'grru'. Did you mean 'gru'?"),
        ("deep:cell=(gru:reset=before", "got '(gru:reset=before'."),
        ("deep:cell=gru:reset=before", "cell must be deep with options from: cell, input_depth, "),
        (
            "deep:cell=(gru:size=2)",
            "cell must be gru with options from: reset, gates, longest, as in",
        ),
        ("deep:cell=(implicitgru)", "cell must look back"),
        ("gru:reset=(before)", "cell must be one of rnn, irnn, "),
        ("deep:cell=" + "(" * 2000, "cell must have at most 8 brackets inside one another; got "),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make_layer(spec, D, H)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(tmp_path)
    yield write_module(tmp_path)
    sys.modules.pop(NAME, None)


def test_cells_of_ones_own_are_imported_by_name(module: str) -> None:
    assert foreign_module(f"{module}:Mean:weight=0.25") == module
    layer = make_layer(f"{module}:Mean:weight=0.25", 2, 2, batch_first=True)
    x = torch.ones(1, 3, 2)
    assert layer(x)[0][0, :, 0].tolist() == [0.25, 0.4375, 0.578125]  # 1 − 0.75ⁿ
    assert foreign_module(f"{module}:Mean") is None  # imported by now
    own = sys.modules[module]
    assert spec_of(own.Mean) == f"{module}:Mean"
    assert spec_of(autapse.GRU) == "gru"
    output, _ = make_layer(own.Mean, 2, 2, batch_first=True)(x)
    assert output[0, :, 1].tolist() == [0.5, 0.75, 0.875]
    inside = make_layer(f"deep:cell=({module}:Mean:weight=0.25):transition_depth=0:output_depth=1", 2, 2)
    assert type(inside.cells["l0"].inner) is own.Mean
    assert inside.cells["l0"].inner.weight == 0.25
    settled, _ = make_layer(f"{module}:Settled", 2, 2)(x)
    torch.testing.assert_close(settled, 2 * x)


@pytest.mark.parametrize(
    "spec",
    [
        f"{NAME}:Mean",
        f"deep:cell=({NAME}:Mean)",
        f"deep:cell=({NAME}:Mean:weight=0.25):transition_depth=2",
        f"deep:transition_depth=2:cell=(deep:cell=({NAME}:Mean))",
    ],
)
def test_a_module_is_found_wherever_it_is_in_a_name(spec: str) -> None:
    assert foreign_module(spec) == NAME


@pytest.mark.parametrize("spec", ["gru", "deep:cell=gru", "deep:cell=(gru:reset=before)", "deep:cell=(torch:Tensor)"])
def test_names_that_import_nothing(spec: str) -> None:
    assert foreign_module(spec) is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_module:Mean", "cell must name a module that can be imported (ModuleNotFoundError: "),
        (
            "cells_of_mine:Means",
            "a class of the module cells_of_mine; got 'Means'. Did you mean 'Mean'?",
        ),
        ("cells_of_mine:NUMBER", "must be a cell class or a layer class of autapse, or its name; got 3."),
        ("cells_of_mine:Mean:height=2", "with options from: weight, as in cells_of_mine:Mean:option=value"),
    ],
)
def test_bad_names_of_ones_own(module: str, spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make_layer(spec, 2, 2)


def test_installed_packages_offer_networks(module: str, tmp_path: Path) -> None:
    write_package(
        tmp_path,
        "[autapse.cells]\nmean = cells_of_mine:Mean\nbroken = cells_of_mine:Absent\ngru = cells_of_mine:Mean\n",
    )
    assert set(offered()) == {"mean", "broken"}  # our own names stay ours
    assert repr(make_layer("mean:weight=0.1", 2, 2)) == "Recurrent(Mean, 2, 2, weight=0.1)"
    assert isinstance(make_layer("gru", 2, 2), autapse.GRU)
    with pytest.raises(InputError, match="cell broken of another package cannot be loaded"):
        make_layer("broken", 2, 2)
    with pytest.raises(InputError, match="Did you mean 'mean'"):
        make_layer("means", 2, 2)
