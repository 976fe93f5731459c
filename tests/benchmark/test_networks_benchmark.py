"""The cost of gated and complex networks: the benchmark runs on small sizes, and the page shows what is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from benchmarks.networks import CASES, PAGE, RESULTS, Case, check_equal, measured, render, settings

import autapse
from autapse.layers.registry import make_layer
from autapse.unfold import scan_reference
from native.kernels import needs_kernels


@needs_kernels
def test_what_is_compared_is_equal_and_timed() -> None:
    row = measured(CASES[-1], 8, settings(quick=True), quick=True)
    assert row["ratio"] == pytest.approx(row["seconds"] / (row["gru"] * row["products"] / 3), rel=0.01)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.spec)
def test_every_network_runs_on_a_kernel(case: Case) -> None:
    cell = make_layer(case.spec, 3, 8).cells["l0"]
    assert cell.form() is not None or cell.runs_in_parts


@needs_kernels
def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> Any:
        return tuple(tuple(1.01 * part for part in parts) for parts in scan_reference(*arguments))

    monkeypatch.setattr("benchmarks.networks.scan_reference", wrong)
    with pytest.raises(AssertionError):
        check_equal(autapse.CFN(8, 8), torch.randn(6, 3, 8))


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are stored yet")
def test_the_page_shows_what_is_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, json.loads(RESULTS.read_text())) == page
