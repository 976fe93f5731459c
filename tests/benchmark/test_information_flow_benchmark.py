"""The cost of information flow: the benchmark runs on small sizes, and the page shows what is stored."""

from __future__ import annotations

import json

import pytest
import torch
from benchmarks import information_flow
from benchmarks.information_flow import PAGE, RESULTS, check_equal, measured, render

import autapse
from native.kernels import needs_kernels


@needs_kernels
def test_what_is_compared_is_equal_and_timed() -> None:
    row = measured("LSTM", 5, 3, 6, 2, "information_flow=0.1", quick=True)
    assert row["ratio"] == pytest.approx(row["seconds"] / row["against"], abs=0.01)


@needs_kernels
def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = information_flow.scan_reference
    monkeypatch.setattr(information_flow, "scan_reference", lambda *a, clip, flow: reference(*a, clip=clip))
    with pytest.raises(AssertionError):
        check_equal(autapse.RNN(2, 5), torch.randn(6, 3, 2))


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are stored yet")
def test_the_page_shows_what_is_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, json.loads(RESULTS.read_text())) == page
