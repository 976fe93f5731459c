"""Pages made from stored results: tables in Markdown, put between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def markdown_table(headings: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def fill_between(page: str, start: str, end: str, text: str) -> str:
    """A page with the text between two marks made anew."""
    before, first, rest = page.partition(start)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise ValueError(f"The page must have the lines {start} and {end}, in this order.")
    return f"{before}{start}\n\n{text}\n\n{end}{after}"
