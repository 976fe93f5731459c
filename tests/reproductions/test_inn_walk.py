"""The reproduction of the biased walk: its script on two small runs, and its page against what is stored."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from autapse.cli.main import main as command_line

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "reproductions" / "inn" / "walk.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("inn_walk", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_collect_runtime_and_render(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = "--train-size 40 --validation-size 20 --test-size 20 --batch-size 20 --steps 2 --eval-every 1".split()
    small = ["--hidden-size", "4", *sizes]
    assert command_line(["run", "walk", "--cell", "implicitgru", *small, "--out", "inn"]) == 0
    assert command_line(["run", "walk", "--cell", "lstm", "--bidirectional", *small, "--out", "lstm"]) == 0
    walk = script()
    for name, file in (("RESULTS", "walk.json"), ("RUNTIME", "runtime.json"), ("PAGE", "README.md")):
        monkeypatch.setattr(walk, name, tmp_path / file)
    monkeypatch.setattr(walk, "LENGTHS", (5, 40))
    (tmp_path / "README.md").write_text("a <!-- results --> old <!-- end of results --> z", encoding="utf-8")
    assert walk.main(["collect", "inn", "lstm"]) == 0
    assert walk.main(["runtime", "inn"]) == 0
    assert walk.main(["render"]) == 0
    rows = json.loads((tmp_path / "walk.json").read_text())["runs"]
    assert [(row["network"], row["width"]) for row in rows] == [("b-LSTM", 8), ("implicit", 4)]
    facts = json.loads((tmp_path / "runtime.json").read_text())
    assert {row["length"] for row in facts["rows"]} == {5, 40}
    assert all(row["sequences"] == 20 for row in facts["rows"])
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "old" not in page
    assert "0.119" in page
    assert f"{rows[1]['test']:.4f}" in page


def test_an_unfinished_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script().main(["collect", str(tmp_path)]) == 2
    assert "autapse resume" in capsys.readouterr().err


@pytest.mark.skipif(not (SCRIPT.parent / "results" / "walk.json").exists(), reason="no results are stored yet")
def test_the_page_shows_what_is_stored() -> None:
    walk = script()
    assert walk.render() == walk.PAGE.read_text(encoding="utf-8")
