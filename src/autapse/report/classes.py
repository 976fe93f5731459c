"""The confusion matrix and the table of classes."""

from __future__ import annotations

from autapse.report import svg
from autapse.report.html import Html, Number, joined, table, tag
from autapse.report.svg import shown
from autapse.training.summary import Summary

MOST_NAMED = 24  # classes whose names and counts fit into a matrix


def class_tables(summary: Summary) -> Html:
    """Both for one run, whose summary has classes."""
    rows, confusion = summary.classes or [], summary.confusion or []
    names = [str(row.get("class")) for row in rows]
    facts = [
        [name, *(_number(row.get(key)) for key in ("count", "precision", "recall", "f1"))]
        for name, row in zip(names, rows, strict=True)
    ]
    per_class = table(["class", "count", "precision", "recall", "F1"], facts)
    matrix = _named(names, confusion) if len(names) <= MOST_NAMED else _drawn(names, confusion)
    means = [("balanced accuracy", summary.balanced_accuracy), ("macro F1", summary.macro_f1)]
    words = ", ".join(f"{name} {value:.4f}" for name, value in means if value is not None)
    return joined([tag("p", words[:1].upper() + words[1:] + "."), tag("div", matrix, per_class, class_="pair")])


def _number(value: float | None) -> Number:
    if value is None:
        return Number(None, "")
    return Number(value, f"{value:.3f}" if isinstance(value, float) else f"{value:,}")


def _named(names: list[str], confusion: list[list[int]]) -> Html:
    """A table with the counts, shaded by their share of the row."""
    head = tag("tr", tag("td"), *(tag("th", name, scope="col") for name in names))
    body = []
    for name, counts in zip(names, confusion, strict=True):
        total = sum(counts) or 1
        cells = [
            tag(
                "td",
                f"{count:,}" if count else "",
                style=f"--v:{100 * count / total:.0f}%",
                class_="strong" if count / total > 0.55 else None,
                data_tip=f"{name} predicted as {other}: {count:,} ({count / total:.1%})",
            )
            for other, count in zip(names, counts, strict=True)
        ]
        body.append(tag("tr", tag("th", name, scope="row"), *cells))
    caption = tag("caption", "Rows: true class. Columns: predicted class.")
    return tag("div", tag("table", caption, tag("thead", head), tag("tbody", *body), class_="matrix"), class_="wide")


def _drawn(names: list[str], confusion: list[list[int]]) -> Html:
    """A picture for many classes: one square for each pair that occurs."""
    size = 400.0 / len(names)
    squares = []
    for n, counts in enumerate(confusion):
        total = sum(counts) or 1
        for m, count in enumerate(counts):
            if count:
                tip = f"{names[n]} predicted as {names[m]}: {shown(count)} ({count / total:.1%})"
                place = {"x": round(m * size, 2), "y": round(n * size, 2), "width": round(size, 2)}
                shade = f"{0.15 + 0.85 * count / total:.2f}"
                squares.append(
                    tag("rect", **place, height=round(size, 2), opacity=shade, class_="bar c0", data_tip=tip)
                )
    frame = tag("rect", x=0, y=0, width=400, height=400, class_="frame")
    picture = tag("svg", frame, *squares, viewBox="-1 -1 402 402", role="img", aria_label="Confusion matrix")
    return svg.figure("Confusion matrix. Rows: true class. Columns: predicted class.", picture)
