"""The cost of curvature products: the benchmark runs on small sizes, and the page shows what is stored."""

from __future__ import annotations

import json

import pytest
import torch
from benchmarks.optimizers import FEATURES, NETWORKS, PAGE, RESULTS, Network, Sizes, check_equal, measured, render

from autapse.training.curvature import GaussNewton


def test_what_is_compared_is_equal_and_timed() -> None:
    row = measured("GRU", 6, Sizes(quick=True))
    assert row["ratio"] == pytest.approx(row["product"] / row["gradient"], rel=0.01)


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    product = GaussNewton.product
    monkeypatch.setattr(GaussNewton, "product", lambda self, vector: 1.01 * product(self, vector))
    with pytest.raises(AssertionError):
        check_equal(Network(NETWORKS["RNN"](FEATURES, 8), 8), torch.randn(6, 3, FEATURES))


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are stored yet")
def test_the_page_shows_what_is_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, json.loads(RESULTS.read_text())) == page
