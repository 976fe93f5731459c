"""The table of capabilities on the page of all cells is that of the code."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import autapse
from autapse.layers.registry import LAYERS
from autapse.native import library
from autapse.unfold import fused
from autapse.unfold import scan as scans

SCRIPT = Path(__file__).parents[2] / "docs" / "cells" / "capabilities.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_page_has_the_table(script: dict[str, Any]) -> None:
    page = script["PAGE"].read_text()
    start, end = script["MARKS"]
    written = page.partition(start)[2].partition(end)[0].strip()
    assert written == script["table"](), "Run: python docs/cells/capabilities.py"


def test_every_network_has_facts_and_no_other(script: dict[str, Any]) -> None:
    assert sorted(script["FACTS"]) == sorted(layer.__name__ for layer in LAYERS.values())


@pytest.mark.skipif(not library.available(), reason="there are no kernels")
@pytest.mark.parametrize("name", [n for n, layer in LAYERS.items() if not n.startswith("implicitg")])
def test_what_runs_by_a_kernel(script: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network runs on a kernel exactly if a call never gets to the reference scan."""
    layer = LAYERS[name](3, 8)
    by_reference, scan = [], fused.scan_reference

    def noted(*arguments: Any, **options: Any) -> Any:
        by_reference.append(arguments[0])
        return scan(*arguments, **options)

    for caller in (fused, scans):
        monkeypatch.setattr(caller, "scan_reference", noted)
    layer(torch.randn(5, 2, 3))
    stated = script["runs_by"](layer.cell_type(3, 8))
    expected = {"kernel": False, "all at once": False, "reference": True, "solved, reference": not layer.looks_ahead}
    assert bool(by_reference) == expected[stated]


@pytest.mark.parametrize("name", LAYERS)
def test_streams(script: dict[str, Any], name: str) -> None:
    layer = LAYERS[name](3, 8)
    if script["row"](type(layer))[4] == "yes":
        assert layer.stream()(torch.zeros(3)).shape == (layer.output_size,)
    else:
        with pytest.raises(NotImplementedError):
            layer.stream()


def test_networks_that_look_ahead_have_no_jacobian(script: dict[str, Any]) -> None:
    assert script["jacobian_of"](autapse.cells.ImplicitGRU(3, 8)) == "—"
    assert script["jacobian_of"](autapse.cells.Memory(3, 8)) == "automatic"
    assert script["jacobian_of"](autapse.cells.GRU(3, 8)) == "closed form"
