"""The numbers of docs/inside.md, measured again on the two networks that are stored for it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import autapse

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "inside.md").read_text(encoding="utf-8")
SAID = {  # as the page writes them
    "RNN": {
        "factor per step": "0.530",
        "steps with 1 % of a gradient": "6",
        "gradient at the last step": "0.0052",
        "radius": "0.530",
        "steps that can be read": "7",
        "error": "0.155",
        "error without the worst step": "0.155",
    },
    "ERNN": {
        "factor per step": "0.989",
        "steps with 1 % of a gradient": "400",
        "gradient at the last step": "0.0013",
        "gradient at the first step": "0.00031",
        "radius": "0.989",
        "R² of the present number": "0.10",
        "error": "0.0001",
        "error without a step": "0.0020",
        "error without the worst step": "0.019",
    },
}


@pytest.fixture(scope="module")
def inside() -> Any:
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("inside", DOCS / "pictures" / "inside.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SAID)
@pytest.mark.fixed_seed("the data of the page have seed 0")
def test_numbers_of_the_page(name: str, inside: Any) -> None:
    measured = inside.facts(inside.look(autapse.load(inside.stored(name))))
    for what, said in SAID[name].items():
        assert said in PAGE
        half = 0.5 * 10.0 ** -len(said.partition(".")[2])  # of the last digit
        assert measured[what] == pytest.approx(float(said), rel=0.01, abs=1.5 * half), what
