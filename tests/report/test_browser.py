"""The report in a real browser: it loads nothing, has no errors, its tables sort, its values can be hovered."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from autapse.cli.main import main
from autapse.tasks import Digits
from autapse.training import train
from browser import needs_browser, visit
from small import small_config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    """Three runs side by side."""
    for n, cell in enumerate(("gru", "rnn", "rin")):
        train(small_config(cell=cell, steps=40, eval_every=10, seed=n), folder / cell)
    out = folder / "report.html"
    assert main(["report", *(str(folder / cell) for cell in ("gru", "rnn", "rin")), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def classes(folder: Path) -> Path:
    """One run with classes."""
    task = Digits(train_size=64, validation_size=20, test_size=50)
    train(small_config(task, steps=4, eval_every=2), folder / "classes")
    assert main(["report", str(folder / "classes"), "--no-diagnose"]) == 0
    return folder / "classes" / "report.html"


@pytest.fixture(scope="module")
def search(folder: Path) -> Path:
    """A run on a file of one's own whose settings a search chose."""
    rng, lines = np.random.default_rng(0), ["sequence,x,y,target"]
    for n in range(48):
        label, level = ("a long name of a class", "another one", "third")[n % 3], n % 3
        lines += [f"{n},{level + x:.3f},{y:.3f},{label}" for x, y in rng.normal(size=(12, 2))]
    (folder / "measurements.csv").write_text("\n".join(lines) + "\n")
    options = ["--seconds", "8", "--out", str(folder / "search")]
    assert main(["run", str(folder / "measurements.csv"), *options]) == 0
    assert main(["report", str(folder / "search"), "--no-diagnose"]) == 0
    return folder / "search" / "report.html"


class Loads(HTMLParser):
    """The addresses that an HTML file refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "srcset", "action")]


def test_the_file_refers_to_nothing(page: Path, classes: Path) -> None:
    for one in (page, classes):
        parser = Loads()
        parser.feed(one.read_text())
        assert parser.found == []
        assert "url(" not in one.read_text()
        assert "@import" not in one.read_text()


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_without_errors_and_loads_nothing(page: Path, classes: Path, dark: bool) -> None:
    for one, width in ((page, 1280), (classes, 500)):
        found = visit(one, "return getComputedStyle(document.body).backgroundColor", width=width, dark=dark)
        assert found.fetched == []
        assert found.console == []
        assert found.answer == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


@needs_browser
def test_the_browser_notices_errors_and_loads(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<html><head></head><body><img src='file:///no-such-picture.png'><script>nothing()</script></body></html>"
    )
    found = visit(bad, "return 1")
    assert any("nothing is not defined" in line for line in found.console)
    assert any("no-such-picture" in line for line in [*found.fetched, *found.console])


@needs_browser
def test_tables_sort_both_ways(page: Path) -> None:
    script = """
        const table = document.querySelector("table.sortable"), found = [];
        const column = n => [...table.tBodies[0].rows].map(row => row.cells[n].textContent);
        found.push(column(5));
        for (const n of [5, 5, 0]) {
          table.tHead.rows[0].cells[n].firstElementChild.click();
          found.push(column(n));
        }
        return found;"""
    before, up, down, names = visit(page, script).answer
    numbers = [int(text.replace(",", "")) for text in before]
    assert len(set(numbers)) == 3
    assert [int(text.replace(",", "")) for text in up] == sorted(numbers)
    assert down == up[::-1]
    assert names == ["gru", "rin", "rnn"]


@needs_browser
def test_values_under_the_pointer(page: Path, classes: Path) -> None:
    move = """
        const svg = document.querySelector("svg[data-curves]"), box = svg.getBoundingClientRect();
        const place = {clientX: box.left + box.width * 0.98, clientY: box.top + 50, bubbles: true};
        svg.dispatchEvent(new PointerEvent("pointermove", place));
        const tip = document.getElementById("tip");
        return [tip.textContent, getComputedStyle(tip).visibility];"""
    text, visibility = visit(page, move).answer
    assert visibility == "visible"
    lines = text.splitlines()
    assert lines[0] == "step 40"
    assert [line.split(":")[0] for line in lines[1:]] == ["gru", "rnn", "rin"]
    over = """
        document.querySelector(".matrix td[data-tip]").dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
        return document.getElementById("tip").textContent;"""
    assert " predicted as " in visit(classes, over).answer


@needs_browser
def test_nothing_is_wider_than_a_phone(page: Path, classes: Path, search: Path) -> None:
    """The narrowest window of Chromium has 500 pixels; a frame can have 390."""
    for one in (page, classes, search):
        script = """
            document.body.style.width = "390px";
            const inside = node => node.closest(".wide") || node.closest("svg") || node.id === "tip";
            const wide = [...document.querySelectorAll("body *")].filter(n => n.getBoundingClientRect().right > 391);
            return wide.filter(node => !inside(node)).map(node => node.outerHTML.slice(0, 80));"""
        assert visit(one, script, width=500).answer == []


@needs_browser
def test_a_phone_shows_the_tables_of_one_run_without_scrolling(classes: Path, search: Path) -> None:
    """All but the table of a search, which has seven columns; what is cut off there has a shadow."""
    script = """
        document.body.style.width = "390px";
        const cut = [...document.querySelectorAll(".wide")].filter(box => box.scrollWidth > box.clientWidth + 1);
        const shadow = getComputedStyle(document.querySelector(".wide")).backgroundImage;
        return [cut.map(box => box.closest("section").querySelector("h2").textContent), shadow];"""
    for one, cut in ((classes, []), (search, ["Search"])):
        found, shadow = visit(one, script, width=500).answer
        assert set(found) <= set(cut), "the tables that must be scrolled"
        assert shadow.count("linear-gradient") == 4


@needs_browser
def test_no_word_of_a_chart_leaves_a_phone(page: Path, classes: Path, folder: Path) -> None:
    """Two tasks side by side have different metrics; a bar has a long name."""
    out = folder / "mixed.html"
    assert main(["report", str(folder / "classes"), str(folder / "gru"), "--no-diagnose", "--out", str(out)]) == 0
    named = (folder / "gru").rename(folder / "a-name-that-is-rather-long-for-a-bar")
    both = folder / "both.html"
    assert main(["report", str(named), str(folder / "rnn"), "--no-diagnose", "--out", str(both)]) == 0
    named.rename(folder / "gru")
    script = """
        document.body.style.width = "390px";
        const bad = [];
        for (const svg of document.querySelectorAll("figure > svg")) {
          const frame = svg.getBoundingClientRect();
          for (const text of svg.querySelectorAll("text")) {
            const box = text.getBoundingClientRect();
            if (box.left < 0 || box.right > 391 || box.top < frame.top - 2 || box.bottom > frame.bottom + 2)
              bad.push(text.textContent);
          }
        }
        return bad;"""
    for one in (page, classes, out, both):
        assert visit(one, script, width=500).answer == []


@needs_browser
def test_the_command_can_be_copied(search: Path) -> None:
    script = """
        document.body.style.width = "390px";
        const place = document.querySelector("pre");
        getSelection().selectAllChildren(place);
        const ends = [...place.children].map(word => word.getClientRects().length);
        return [getSelection().toString(), Math.max(...ends), place.getClientRects()[0].height];"""
    copied, pieces, height = visit(search, script, width=500).answer
    assert copied.strip() == json.loads((search.parent / "choice.json").read_text())["command"]
    assert pieces == 1, "no word is broken in two"
    assert height > 100, "but the command takes several lines"
