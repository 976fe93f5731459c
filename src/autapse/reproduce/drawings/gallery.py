"""The page with the papers' figures: pictures and sentences, from the stored results."""

from __future__ import annotations

import os
from pathlib import Path

from autapse import checks, files
from autapse.reproduce.drawings.base import FigureResult, path_of
from autapse.reproduce.drawings.registry import FIGURES
from autapse.reproduce.score import duration

TITLES = {
    "inn": "Implicitly-defined networks (2018)",
    "ernn": "ERNN (2019)",
    "rin": "RIN (2018)",
    "textbook": "The textbook's chapter on sequence models",
    "antisymmetric": "AntisymmetricRNN (2019)",
}
OUTCOMES = {True: "The claim holds here.", False: "The claim does not hold here.", None: "It cannot be judged yet."}


def read_figures(results: Path) -> list[FigureResult]:
    """The stored figures, in the order of the papers."""
    stored = []
    for name in FIGURES:
        path = path_of(results, name).with_suffix(".json")
        if path.is_file():
            stored.append(FigureResult.from_json(files.read_json(path), path))
    return stored


def render_gallery(results: Path, page: Path) -> str:
    """The page as Markdown.

    Args:
        results: the folder with the stored figures.
        page: where the page will be; the pictures are linked from there.
    """
    figures = read_figures(results)
    held, failed = (sum(one.holds is outcome for one in figures) for outcome in (True, False))
    lines = [
        "# The papers' figures",
        "",
        "Each picture is drawn by a command, from our own networks and probes. Most trainings are much "
        "smaller than the "
        "papers', with one seed. The captions say what was smaller. So a claim that does "
        "not hold here is "
        "not refuted, and one that holds is not proved.",
        "",
        f"{len(figures)} figures: {held} claims hold, {failed} do not.",
        "",
        "Written by `autapse reproduce report`; not to be edited.",
    ]
    missing = [f"`{name}`" for name in FIGURES if name not in {one.id for one in figures}]
    if missing:
        lines += ["", f"Not drawn yet (`autapse reproduce ID` draws one): {', '.join(missing)}."]
    paper = ""
    for one in figures:
        if one.id.split("/")[0] != paper:
            paper = one.id.split("/")[0]
            lines += ["", f"## {TITLES[paper]}"]
        lines += ["", *_entry(one, results, page)]
    return "\n".join(lines) + "\n"


def _entry(one: FigureResult, results: Path, page: Path) -> list[str]:
    picture = path_of(results, one.id).with_suffix(".svg")
    link = Path(os.path.relpath(picture.resolve(), page.resolve().parent)).as_posix()
    return [
        f"### {one.name}",
        "",
        f"![{one.name}: {_plain(one.caption)}]({link})",
        "",
        f"*{one.caption}*",
        "",
        f"- The paper: {one.paper}",
        f"- Ours: {one.ours}",
        f"- **{OUTCOMES[one.holds]}**",
        f"- `{one.command}` ({duration(one.seconds)} on a busy machine)",
    ]


def _plain(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")


def write_gallery(results: Path, page: Path) -> None:
    """Write the page."""
    files.write_bytes(page, render_gallery(results, page).encode())


def check_gallery(results: Path, page: Path) -> None:
    """Raise an error if the page does not match the stored figures."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    if text != render_gallery(results, page):
        raise checks.InputError(f"{page} does not match the figures. `autapse reproduce report` writes it again.")
