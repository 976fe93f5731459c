"""The cost of delays and clockwork groups: the benchmark runs on small sizes, and the page shows what is stored."""

from __future__ import annotations

import json

import pytest
import torch
from benchmarks.time_scales import PAGE, RESULTS, Sizes, check_equal, measure_clockwork, measure_delays, render

import autapse
from native.kernels import needs_kernels


@needs_kernels
def test_what_is_compared_is_equal_and_timed() -> None:
    row = measure_delays((1, 2, 4), 8, Sizes(quick=True))
    assert row["ratio"] == pytest.approx(row["seconds"] / row["against"], rel=0.01)
    assert row["cost"] == pytest.approx((row["ratio"] - 1) / 2, abs=0.01)
    assert measure_clockwork(8, Sizes(quick=True))["seconds"] > 0


@needs_kernels
def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, step = autapse.Clockwork(8, 8), autapse.cells.Clockwork.step
    monkeypatch.setattr(autapse.cells.Clockwork, "runs_in_parts", True)
    monkeypatch.setattr(autapse.cells.Clockwork, "step", lambda self, u, s, w, t: (step(self, u, s, w, t)[0] * 1.01,))
    with pytest.raises(AssertionError):
        check_equal(layer, torch.randn(6, 3, 8))


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are stored yet")
def test_the_page_shows_what_is_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, json.loads(RESULTS.read_text())) == page
