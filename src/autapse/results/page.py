"""Pages made from stored results: tables in Markdown, written between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def markdown_table(headings: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown.

    >>> print(markdown_table(["n", "time"], [[1, "2 s"], [2, "4 s"]]))
    | n | time |
    | --- | --- |
    | 1 | 2 s |
    | 2 | 4 s |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def fill_between(page: str, start: str, end: str, text: str) -> str:
    """A page with new text between two marks; a ValueError if it lacks a mark."""
    before, first, rest = page.partition(start)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise ValueError(f"The page must have the lines {start} and {end}, in this order.")
    return f"{before}{start}\n\n{text}\n\n{end}{after}"


def fill_table(
    page: str,
    text: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    start: str = "<!-- results -->",
    end: str = "<!-- end of results -->",
) -> str:
    """A page with a new text and table between two marks."""
    return fill_between(page, start, end, f"{text}\n\n{markdown_table(heads, rows)}")


def milliseconds(*seconds: float) -> list[str]:
    """Times for a table.

    >>> milliseconds(0.0123, 1.0)
    ['12.3 ms', '1000.0 ms']
    """
    return [f"{1e3 * each:.1f} ms" for each in seconds]


def speed(ratio: float) -> str:
    """How much faster or slower something is that takes `ratio` times as long.

    >>> speed(0.4), speed(46.2), speed(1.0)
    ('2.50× faster', '46× slower', '1×')
    """
    factor = max(ratio, 1 / ratio)
    written = f"{factor:.2f}×" if factor < 10 else f"{factor:.0f}×"
    return "1×" if ratio == 1 else f"{written} faster" if ratio < 1 else f"{written} slower"
