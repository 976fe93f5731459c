"""HTML from Python: every text is escaped unless it was made here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autapse.terminal import LAYOUT, visible

EMPTY = ("br", "hr", "meta")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(content: Any) -> Html:
    """A value as HTML. Control characters become visible escapes; None becomes nothing.

    >>> escaped("<b>a & b</b>")
    '&lt;b&gt;a &amp; b&lt;/b&gt;'
    """
    if isinstance(content, Html):
        return content
    return Html("" if content is None else html.escape(visible(content, keep=LAYOUT)))


def joined(parts: Iterable[Any], between: str = "") -> Html:
    """Several parts as one."""
    return Html(between.join(escaped(part) for part in parts))


def tag(name: str, /, *content: Any, **attributes: Any) -> Html:
    """An element. Attributes that are None or False are left out; `class_` is class, and data_tip is data-tip.

    >>> tag("p", "2 < 3", class_="note")
    '<p class="note">2 &lt; 3</p>'
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        written.append(attribute if value is True else f'{attribute}="{escaped(str(value))}"')
    opening = " ".join([name, *written])
    return Html(f"<{opening}>" if name in EMPTY else f"<{opening}>{joined(content)}</{name}>")


@dataclass(frozen=True)
class Number:
    """A number in a table: what is shown, and the value by which the column is sorted."""

    value: float | None
    shown: str


def table(headings: Sequence[Any], rows: Sequence[Sequence[Any]], marked: Sequence[int] = ()) -> Html:
    """A table that can be sorted by each column. Columns whose cells are all `Number` are aligned to the right."""
    numeric = [all(isinstance(row[n], Number) for row in rows) and bool(rows) for n in range(len(headings))]
    kinds = ["number" if one else None for one in numeric]
    head = [
        tag("th", tag("button", heading, type="button"), scope="col", class_=kind)
        for heading, kind in zip(headings, kinds, strict=True)
    ]
    body = []
    for place, row in enumerate(rows):
        cells = [_cell(value, n == 0, kind) for n, (value, kind) in enumerate(zip(row, kinds, strict=True))]
        body.append(tag("tr", *cells, class_="marked" if place in marked else None))
    parts = tag("thead", tag("tr", *head)), tag("tbody", *body)
    return tag("div", tag("table", *parts, class_="sortable"), class_="wide")


def _cell(value: Any, first: bool, kind: str | None) -> Html:
    name, scope = ("th", "row") if first else ("td", None)
    if isinstance(value, Number):
        sorted_by = "" if value.value is None else repr(float(value.value))
        return tag(name, value.shown, scope=scope, class_=kind, data_v=sorted_by)
    return tag(name, value, scope=scope, class_=kind)
