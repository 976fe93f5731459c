"""The cost of grids and trees: the benchmark compares equal results, and the page shows what is stored."""

from __future__ import annotations

import json

import pytest
from benchmarks.structures import PAGE, RESULTS, measure_grid, measure_trees, render


@pytest.mark.parametrize("cell", ["gru", "rin"])
def test_a_grid_is_compared_with_four_scans(cell: str) -> None:
    row = measure_grid(cell, 4, quick=True)
    assert row["ratio"] == pytest.approx(row["seconds"] / row["against"], rel=0.01)


def test_trees_are_compared_with_a_recursion() -> None:
    row = measure_trees("n-ary-lstm", 4, quick=True)
    assert row["ratio"] == pytest.approx(row["against"] / row["seconds"], rel=0.01, abs=0.0006)  # three digits


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are stored yet")
def test_the_page_shows_what_is_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, json.loads(RESULTS.read_text())) == page
