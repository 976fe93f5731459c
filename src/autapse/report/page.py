"""The whole page: title, sections, style and script in one file."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from autapse import __version__
from autapse.report import sections
from autapse.report.html import Html, joined, tag
from autapse.report.run import RunFacts

MARK = "<!-- autapse report -->"
# Nothing may be loaded, not even by a mistake in this file: only what the file itself holds.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def render(runs: Sequence[RunFacts], title: str = "", remarks: Sequence[str] = ()) -> str:
    """The report as one HTML file.

    Args:
        runs: what is known about each run.
        title: of the page; by default the names of the runs.
        remarks: sentences below the title.

    Returns:
        The text of the file. It loads nothing from elsewhere.
    """
    title = title or " · ".join(run.name for run in runs)
    body = [_header(runs, title, remarks), tag("main", *_sections(runs)), _footer()]
    script = tag("script", Html("\n" + _asset("script.js")))
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} – autapse"),
        tag("style", Html("\n" + _asset("style.css"))),
    ]
    page = tag("html", tag("head", *head), tag("body", *body, script), lang="en")
    return f"<!DOCTYPE html>\n{MARK}\n{page}\n"


def is_report(content: bytes) -> bool:
    """Whether a file was written by `render`."""
    return MARK.encode() in content[:200]


def _header(runs: Sequence[RunFacts], title: str, remarks: Sequence[str]) -> Html:
    tasks = dict.fromkeys(f"{run.config.task.name}: {run.config.task.summary}" for run in runs)
    lines = [tag("p", task, class_="task") for task in tasks]
    return tag("header", tag("h1", title), *lines, *(tag("p", remark) for remark in remarks), sections.verdicts(runs))


def _sections(runs: Sequence[RunFacts]) -> list[Html]:
    several = len(runs) > 1
    predicted = []
    for number, run in enumerate(runs):
        shown = sections.predictions(run, number)
        if shown:
            name = tag("summary", run.name)
            predicted.append(tag("details", name, shown, open=number == 0) if several else shown)
    searches = [
        joined([tag("h3", run.name) if several else "", table]) for run in runs if (table := sections.search(run))
    ]
    return [
        sections.section("Scores and cost", sections.scores(runs)),
        sections.section("Learning curves", sections.curves(runs)),
        sections.section("Predictions on the test data", *predicted),
        sections.section("Inside the network" + ("s" if several else ""), sections.diagnoses(runs)),
        sections.section("Search", *searches),
        sections.section("Settings", sections.settings(runs)),
        sections.section("To repeat " + ("them" if several else "it"), sections.commands(runs)),
        sections.section("Not measured", sections.notes(runs)),
    ]


def _footer() -> Html:
    return tag("footer", f"Written by autapse {__version__}. This file loads nothing from elsewhere.")


def _asset(name: str) -> str:
    return (files("autapse.report") / name).read_text(encoding="utf-8")
