"""Learning curves as pictures: only of results that have one, the same every time, and kept without matplotlib."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autapse.checks import InputError
from autapse.reproduce.curve import Curve
from autapse.reproduce.figures import Picture
from autapse.reproduce.paper import PublishedPaper, read_papers
from autapse.reproduce.report import check_page, write_page
from autapse.reproduce.result import Result
from small_results import by_recipe, result

ROOT = Path(__file__).parents[2] / "reproductions"
PAPERS = {paper.id: paper for paper in read_papers(ROOT)}
ERNN = "ernn/table3/har-2/ernn"


def with_curve(recipe: str, *losses: float) -> Result:
    count = len(losses)
    curve = Curve(tuple(float(n + 1) for n in range(count)), losses, tuple(loss / 10 for loss in losses))
    return result(recipe, 95.0, curve=curve)


def pictures(paper: PublishedPaper, *results: Result) -> dict[str, Picture]:
    return {picture.figure.name: picture for picture in paper.pictures(by_recipe(*results))}


def test_results_without_curves_give_no_picture() -> None:
    assert pictures(PAPERS["ernn"], result(ERNN, 95.0)) == {}


def test_a_picture_has_the_curves_that_there_are() -> None:
    found = pictures(PAPERS["ernn"], with_curve(ERNN, 1.0, 0.5), result("ernn/table3/har-2/fastrnn", 94.0))
    (panel,) = found["Figure 8"].panels
    assert panel.curves == {"ERNN (K = 1)": ((1.0, 1.0), (2.0, 0.5))}
    assert (panel.xlabel, panel.ylabel) == ("epochs", "training loss")


def test_error_rates_are_drawn_as_accuracies() -> None:
    found = pictures(PAPERS["rin"], with_curve("rin/table1/sequential-mnist/rin-1-200", 2.0, 1.0))
    losses, scores, *permuted = found["Figure 3"].panels
    assert losses.curves["RIN 1-200"] == ((1.0, 2.0), (2.0, 1.0))
    assert scores.curves["RIN 1-200"] == ((1.0, 80.0), (2.0, 90.0))
    assert scores.ylabel == "accuracy, %"
    assert not any(panel.curves for panel in permuted)


def test_a_picture_is_drawn_once_and_the_same_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results, papers = by_recipe(with_curve(ERNN, 1.0, 0.5)), [PAPERS["ernn"]]
    page, path = tmp_path / "README.md", tmp_path / "figures" / "ernn-figure8.svg"
    assert write_page(page, results, papers) == []
    check_page(page, results, papers)
    first = path.read_bytes()
    assert "](figures/ernn-figure8.svg)" in page.read_text(encoding="utf-8")
    assert "ERNN (K = 1)" in "".join(ElementTree.fromstring(first).itertext())
    path.unlink()
    with pytest.raises(InputError, match=r"ernn-figure8\.svg does not match the results"):
        check_page(page, results, papers)
    write_page(page, results, papers)
    assert path.read_bytes() == first
    other = by_recipe(with_curve(ERNN, 1.0, 0.4))
    with pytest.raises(InputError, match=r"ernn-figure8\.svg does not match the results"):
        check_page(page, other, papers)
    write_page(page, other, papers)
    assert path.read_bytes() != first


def test_without_matplotlib_the_pictures_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, papers = by_recipe(with_curve(ERNN, 1.0, 0.5)), [PAPERS["ernn"]]
    path = tmp_path / "figures" / "ernn-figure8.svg"
    path.parent.mkdir()
    path.write_text("an older picture")
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    notes = write_page(tmp_path / "README.md", results, papers)
    assert notes == ["1 picture was not drawn. Plots need matplotlib: pip install 'autapse[plots]'"]
    assert path.read_text() == "an older picture"
    assert "ERNN" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_figure_of_a_recipe_that_there_is_not(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "inn", tmp_path / "inn", ignore=shutil.ignore_patterns("results"))
    path = tmp_path / "inn" / "paper.toml"
    curve = 'curves = [{ label = "INN", recipe = "table2/upos/inm" }]'
    figure = f'[[figure]]\nname = "Figure 9"\nfile = "a.svg"\ncaption = ""\n[[figure.panel]]\nvalue = "loss"\n{curve}\n'
    path.write_text(path.read_text() + figure)
    with pytest.raises(InputError, match=r"recipe of Figure 9 must be .* 'inn/table2/upos/inm'. Did you mean"):
        read_papers(tmp_path)
    path.write_text(path.read_text().replace("inm", "inn").replace('value = "loss"', 'value = "speed"'))
    (paper,) = read_papers(tmp_path)
    with pytest.raises(InputError, match="value must be one of loss, validation; got 'speed'"):
        paper.pictures({})
