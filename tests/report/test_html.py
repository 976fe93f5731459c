"""HTML and SVG: texts are escaped, scales and ticks are right."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from autapse.report import svg
from autapse.report.html import Html, Number, escaped, table, tag

BAD = "<script>alert(1)</script>\"'&\x1b[31m\u202e"


def test_every_text_is_escaped() -> None:
    for made in (escaped(BAD), tag("p", BAD, title=BAD), table([BAD], [[BAD], [Number(1.0, BAD)]])):
        assert "<script" not in made
        assert "\x1b" not in made
        assert "\u202e" not in made
        ElementTree.fromstring(f"<r>{made}</r>")  # well formed: no quote ends an attribute


def test_html_stays_as_it_is() -> None:
    assert tag("p", Html("<b>x</b>"), None, 3) == "<p><b>x</b>3</p>"
    assert tag("p", hidden=False, open=True, data_tip="a") == '<p open data-tip="a"></p>'


def test_columns_of_numbers_are_aligned_and_can_be_sorted() -> None:
    made = table(["name", "n"], [["a", Number(1.5, "1.5 s")], ["b", Number(None, "")]])
    assert re.findall(r'data-v="([^"]*)"', made) == ["1.5", ""]
    assert made.count('class="number"') == 3


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (0.0, 10.0, False, [0, 2, 4, 6, 8, 10]),
        (-1.0, 1.0, False, [-1, -0.5, 0, 0.5, 1]),
        (0.001, 1000.0, True, [0.001, 0.01, 0.1, 1, 10, 100, 1000]),
        (0.9, 12.0, True, [1, 2, 5, 10]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, log: bool, expected: list[float]) -> None:
    assert svg.Scale(low, high, 0, 100, log).ticks() == pytest.approx(expected)


def test_a_scale_maps_its_ends_to_the_ends() -> None:
    assert [svg.Scale(1, 100, 0, 200, log=True)(value) for value in (1, 10, 100)] == [0, 100, 200]
    assert [svg.Scale(-1, 1, 200, 0)(value) for value in (-1, 0, 1)] == [200, 100, 0]


def test_a_curve_passes_through_its_points() -> None:
    made = svg.line_chart("t", {"a": [(0, 0.0), (10, 1.0), (20, -1.0)]}, {"level": 0.0}, "step", "y")
    points = re.search(r'<polyline[^>]*points="([^"]*)"', made)
    assert points
    xs, ys = zip(*(map(float, pair.split(",")) for pair in points[1].split()), strict=True)
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1])
    level = re.search(r'class="level l0"[^>]*y1="([\d.]+)"', made)
    assert level
    assert float(level[1]) == ys[0]
    assert ys[1] < ys[0] < ys[2]


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    made = svg.line_chart("t", {"a": [(n, 1.0 + n) for n in range(10_000)]}, {}, "step", "y")
    points = re.search(r'<polyline[^>]*points="([^"]*)"', made)
    assert points
    assert len(points[1].split()) <= svg.MOST_POINTS
    assert "[9999.0" in made or "[9999," in made


def test_charts_without_values_are_nothing_and_constants_are_drawn() -> None:
    assert svg.line_chart("t", {"a": []}, {}, "x", "y") == ""
    assert svg.bar_chart("t", {}, {}, "x") == ""
    for made in (
        svg.line_chart("t", {"a": [(1, 2.0)]}, {}, "x", "y"),
        svg.line_chart("t", {"a": [(1, 0.0), (2, 0.0)]}, {"l": 0.0}, "x", "y"),
        svg.bar_chart("t", {"a": 0.0, "b": 0.0}, {"l": 0.0}, "x"),
        svg.scatter_chart("t", [(1.0, 1.0)], "x", "y"),
        svg.histogram("t", [2.0, 2.0], "x"),
    ):
        assert "nan" not in made
        ElementTree.fromstring(f"<r>{made}</r>")


def test_a_histogram_counts_every_value() -> None:
    made = svg.histogram("t", [0.0, 1.0, 1.0, 2.0, 31.0], "x")
    assert sum(int(count) for count in re.findall(r'data-tip="[^"]*: (\d+)"', made)) == 5
