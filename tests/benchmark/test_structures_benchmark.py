"""The cost of grids: the benchmark compares equal results, and runs on small sizes."""

from __future__ import annotations

import pytest
from benchmarks.structures import measure_grid


@pytest.mark.parametrize("cell", ["gru", "rin"])
def test_a_grid_is_compared_with_four_scans(cell: str) -> None:
    row = measure_grid(cell, 4, quick=True)
    assert row["ratio"] == pytest.approx(row["seconds"] / row["against"], rel=0.01)
