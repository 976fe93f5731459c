"""The run times of section 4: the script on a small run, and its page against what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reproductions.inn import runtime

from autapse.cli.main import main as command_line


def test_measure_and_render(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = "--train-size 40 --validation-size 20 --test-size 20 --batch-size 20 --steps 2 --eval-every 1".split()
    assert command_line(["run", "walk", "--cell", "implicitgru", "--hidden-size", "4", *sizes, "--out", "inn"]) == 0
    for name, file in (("RESULTS", "runtime.json"), ("PAGE", "README.md")):
        monkeypatch.setattr(runtime, name, tmp_path / file)
    monkeypatch.setattr(runtime, "LENGTHS", (5, 40))
    (tmp_path / "README.md").write_text("a <!-- results --> old <!-- end of results --> z", encoding="utf-8")
    assert runtime.main(["measure", "inn"]) == 0
    assert runtime.main(["render"]) == 0
    facts = json.loads((tmp_path / "runtime.json").read_text())
    assert {row["length"] for row in facts["rows"]} == {5, 40}
    assert all(row["sequences"] == 20 for row in facts["rows"])
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "old" not in page
    assert f"{facts['rows'][1]['ours_evaluations']:.1f}" in page


def test_the_page_shows_what_is_stored() -> None:
    assert runtime.render() == runtime.PAGE.read_text(encoding="utf-8")
