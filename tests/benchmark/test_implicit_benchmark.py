"""The cost of implicit networks: the benchmark runs from end to end on little data, and its page is what it stored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.implicit.growth import power
from benchmarks.implicit.page import render

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "implicit.json"
PAGE = ROOT / "docs" / "implicit-speed.md"


def test_runs_from_end_to_end(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.implicit", "--quick", "--threads", "1", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    counts = {row["solver"]: row for row in results["counts"]}
    assert counts["recommended"]["failures"] == 0
    assert counts["recommended"]["evaluations"] < counts["paper"]["evaluations"]
    assert {row["solver"] for row in results["growth"]["rows"]} == {"recommended", "paper"}
    (step,) = results["steps"]
    assert step["ratio_to_torch"]["torch.nn, padded"] >= 1 or step["ratio_to_torch"]["torch.nn, packed"] >= 1
    parameters = step["parameters"]
    assert abs(parameters["torch.nn, padded"] / parameters["implicit, default"] - 1) < 0.1
    text = render("before <!-- results --> old <!-- end of results --> after", results)
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after")
    assert "recommended" in text


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are stored yet")
def test_the_page_shows_what_is_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, json.loads(RESULTS.read_text())) == page


def test_the_fit_finds_a_power() -> None:
    rows = [{"length": n, "seconds": 0.17 * n**1.8} for n in (5, 10, 40, 100)]
    fit = power(rows, "seconds")
    assert np.isclose(fit["factor"], 0.17)
    assert fit["exponent"] == 1.8
    assert fit["r2"] == 1.0
