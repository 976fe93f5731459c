"""The cost of decoders: the benchmark runs on small sizes, and the page shows what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.decoder import PAGE, RESULTS, Sizes, measure_attention, measure_decoder, render

ROOT = Path(__file__).parents[2]


def test_what_is_compared_is_equal_and_timed() -> None:
    row = measure_decoder("gru", 8, Sizes(quick=True))
    assert row["seconds"] > 0
    assert row["ratio"] == pytest.approx(row["seconds"] / row["against"], rel=0.01)
    assert measure_attention("additive", "gru", 8, Sizes(quick=True))["what"] == "additive attention"


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are stored yet")
def test_the_page_shows_what_is_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, json.loads(RESULTS.read_text())) == page
