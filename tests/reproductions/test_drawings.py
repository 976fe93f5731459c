"""The papers' figures by command: what is written, whether the numbers are right, and the page of figures."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from autapse.reproduce.drawings import antisymmetric, ernn, rin
from autapse.reproduce.drawings.base import FigureResult, binned, draw_figure, path_of, short
from autapse.reproduce.drawings.gallery import check_gallery, read_figures, render_gallery
from autapse.reproduce.drawings.registry import FIGURES
from command_line import mistake, said

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[2] / "reproductions"
LARGEST = 200_000  # bytes of an SVG file in the repository


def stored(name: str) -> FigureResult:
    path = path_of(ROOT, name).with_suffix(".json")
    return FigureResult.from_json(json.loads(path.read_text()), path)


# The command ---------------------------------------------------------------------------------------------------------


def test_a_figure_is_written_as_png_svg_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "reproduce", "ernn/figure5", "--results", str(tmp_path))
    place = tmp_path / "ernn" / "figures" / "figure5"
    result = FigureResult.from_json(json.loads(place.with_suffix(".json").read_text()))
    assert text.splitlines()[:3] == [result.caption, f"the paper: {result.paper}", f"ours: {result.ours}"]
    assert "The claim holds here." in text
    assert result.command == "autapse reproduce ernn/figure5"
    assert place.with_suffix(".png").read_bytes()[1:4] == b"PNG"
    ElementTree.parse(place.with_suffix(".svg"))


def test_figures_are_listed_beside_tables(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "reproduce", "list", "ernn")
    assert "ernn/table3/har-2/ernn" in text
    assert "ernn/figure5" in text
    assert "rin/figure1" not in text
    text = said(capsys, "reproduce", "list", "ernn/figure5")
    assert "0 recipes, 1 figures" in text
    text = said(capsys, "reproduce", "list", "rin/figure2")  # a figure, and the recipes of its curves
    assert "rin/figure2/t200/rin" in text


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Did you mean 'ernn/figure9'?" in mistake(capsys, "reproduce", "ernn/figure99")
    assert "seed" in mistake(capsys, "reproduce", "ernn/figure5", "--seed", "-1")
    assert "--budget" in mistake(capsys, "reproduce", "ernn/figure5", "--budget", "1m")
    (tmp_path / "taken").write_text("a file")
    assert "taken" in mistake(capsys, "reproduce", "ernn/figure5", "--results", str(tmp_path / "taken"))


# Numbers -------------------------------------------------------------------------------------------------------------


def test_phi_solves_its_equation() -> None:
    numbers = stored("ernn/figure5").numbers
    alpha, phi = np.array(numbers["alpha"]), np.array(numbers["phi"])
    assert np.tanh(phi + alpha) == pytest.approx(phi, abs=1e-3)


def test_phase_portraits_follow_the_equation() -> None:
    """The growth of the distances, by loops over h' = tanh(W·h) and h' = h + 0.1·tanh(W·h)."""
    growth = stored("antisymmetric/figure1").numbers["growth"]
    for name, W in antisymmetric.MATRICES.items():
        h = start = np.array(antisymmetric.PAPER)
        for _ in range(50):
            h = h + 0.1 * np.tanh(h @ np.array(W).T)
        ratio = np.linalg.norm(h, axis=1) / np.linalg.norm(start, axis=1)
        assert growth[name] == pytest.approx(float(ratio.mean()), rel=2e-3)
    h = np.array(antisymmetric.PAPER)
    for _ in range(50):
        h = np.tanh(h)
    ratio = np.linalg.norm(h, axis=1) / np.linalg.norm(antisymmetric.PAPER, axis=1)
    assert growth["RNN, identity"] == pytest.approx(float(ratio.mean()), rel=2e-3)


def test_the_cliff_by_a_loop() -> None:
    """Gradient descent on (h_50 + 0.7)² with h' = tanh(w·h + b) from h = 0.5, by forward accumulation."""
    numbers = stored("textbook/figure10.19").numbers
    for name, clip in (("plain", np.inf), ("clipped", 1.0)):
        point, losses = np.array([1.5, -0.2]), []
        for _ in range(61):
            h, slope = 0.5, np.zeros(2)
            for _ in range(50):
                following = np.tanh(point[0] * h + point[1])
                slope = (1 - following**2) * (np.array([h, 1.0]) + point[0] * slope)
                h = following
            losses.append((h + 0.7) ** 2)
            gradient = 2 * (h + 0.7) * slope
            point = point - 0.2 * gradient * min(1.0, clip / max(np.linalg.norm(gradient), 1e-300))
        assert numbers[name]["loss"][:5] == pytest.approx(losses[:5], rel=1e-3)
        assert numbers[name]["loss"][-1] == pytest.approx(losses[-1], abs=1e-3)


def test_curves_are_short_and_binned() -> None:
    assert short([1.23456, np.nan, np.inf]) == [1.235, None, None]
    assert len(short(np.arange(1000))) == 64
    x, y = binned(np.array([0.5, 1.0, 1.5, 2.0]), np.array([1.0, 3.0, 5.0, 7.0]), 1.0)
    assert x.tolist() == [1.0, 2.0]
    assert y.tolist() == [2.0, 6.0]


# Trainings -----------------------------------------------------------------------------------------------------------


def test_figures_of_the_toy_data_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ernn, "WALKS", 1024)
    monkeypatch.setattr(ernn, "EPOCHS", 2)
    ernn._toy.cache_clear()
    for name in ("figure3a", "figure3b", "figure4"):
        result = draw_figure(FIGURES[f"ernn/{name}"], 1, tmp_path)
        assert result.command == f"autapse reproduce ernn/{name} --seed 1"
    ernn._toy.cache_clear()
    distances = json.loads((tmp_path / "ernn/figures/figure3a.json").read_text())["numbers"]["RNN"]["distance"]
    assert len(distances) == 3  # before the training and after each epoch
    assert distances[-1] == 0


def test_figures_of_adding_and_images_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rin, "LENGTHS", (5, 8))
    small = {"task__train_size": 320, "training__epochs": 2, "training__eval_every": 10}
    monkeypatch.setattr(rin, "ADDING", rin.ADDING | small)
    monkeypatch.setitem(rin.EPOCHS, "short", 0.3)
    monkeypatch.setitem(rin.EPOCHS, "shortest", 0.1)
    for name in ("figure2", "figure5", "figure9"):
        result = draw_figure(FIGURES[f"rin/{name}"], 0, tmp_path)
        assert result.numbers
    curves = rin._curves({"RIN 1-100": "rin-1-100"}, ("loss", "validation"), 0)
    assert set(curves.numbers) == {
        f"{kind}, RIN 1-100, {key}" for kind in ("sequential", "permuted") for key in ("loss", "validation")
    }
    assert curves.holds  # the only network is the best one
    rin._adding.cache_clear()
    rin._image_run.cache_clear()
    layers = json.loads((tmp_path / "rin/figures/figure9.json").read_text())["numbers"]
    assert set(layers) == {f"{name} 2-100, layer {n}" for name in rin.NETWORKS for n in (1, 2)}
    assert all(one["to_end"][-1] == 0 for one in layers.values())


# The page ------------------------------------------------------------------------------------------------------------


def test_the_page_matches_the_stored_figures() -> None:
    check_gallery(ROOT, ROOT / "FIGURES.md")


def test_the_page_has_every_figure_or_says_that_it_is_missing(tmp_path: Path) -> None:
    page = render_gallery(ROOT, ROOT / "FIGURES.md")
    known = {one.id for one in read_figures(ROOT)}
    for name in FIGURES:
        assert (f"autapse reproduce {name}`" in page) == (name in known)
        assert (f"`{name}`" in page) == (name not in known)
    assert "Not drawn yet" in render_gallery(tmp_path, tmp_path / "FIGURES.md")


def test_pictures_in_the_repository_are_small_and_belong_to_a_figure() -> None:
    places = {path_of(ROOT, name) for name in FIGURES}
    for picture in ROOT.glob("*/figures/*.svg"):
        assert picture.stat().st_size < LARGEST, picture
        assert picture.with_suffix("") in places, picture
        assert picture.with_suffix(".json").exists(), picture


def test_stored_sentences_are_those_of_the_code() -> None:
    for one in read_figures(ROOT):
        assert (one.caption, one.paper, one.name) == (
            FIGURES[one.id].caption,
            FIGURES[one.id].paper,
            FIGURES[one.id].name,
        )
