"""Spans of labels such as B-PER I-PER O, and their F1: a span counts if its kind, its start and its end are right."""

from __future__ import annotations

from collections.abc import Sequence

MARKS = ("B", "I", "E", "S", "L", "U")  # begin, inside, end or last, single or unit

Span = tuple[str, int, int]  # kind, first step, step after the last


def are_spans(labels: Sequence[str]) -> bool:
    """Whether the names of the classes mark spans: O, and the others as B-PER, I-PER, E-PER or S-PER.

    >>> are_spans(["B-NP", "I-NP", "O"]), are_spans(["NOUN", "O"])
    (True, False)
    """
    marked = [label for label in labels if label != "O"]
    return bool(marked) and all(label[:1] in MARKS and label[1:2] in "-_" and label[2:] for label in marked)


def spans(labels: Sequence[str]) -> set[Span]:
    """The spans of one sequence. I without a span before it begins one, as in conlleval.

    >>> sorted(spans(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"]))
    [('LOC', 3, 4), ('LOC', 4, 5), ('PER', 0, 2)]
    """
    made: set[Span] = set()
    start, kind = 0, ""
    for step, label in enumerate([*labels, "O"]):
        mark, own = (label[:1], label[2:]) if label != "O" else ("O", "")
        if kind and (mark in ("B", "S", "U", "O") or own != kind):
            made.add((kind, start, step))
            kind = ""
        if own and not kind:
            start, kind = step, own
        if kind and mark in ("E", "L", "S", "U"):
            made.add((kind, start, step + 1))
            kind = ""
    return made


def span_scores(
    true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> list[dict[str, str | int | float]]:
    """Precision, recall and F1 of each kind of span, and of all spans together (kind "all").

    Args:
        true: The labels of each sequence.
        predicted: The predicted labels of each sequence.

    Example:
        >>> span_scores([["B-A", "O", "B-A"]], [["B-A", "O", "O"]])[-1]["f1"]
        0.6666666666666666
    """
    pairs = [(spans(one), spans(other)) for one, other in zip(true, predicted, strict=True)]
    kinds = sorted({kind for pair in pairs for side in pair for kind, _, _ in side})
    return [_row(kind, [_of_kind(pair, kind) for pair in pairs]) for kind in kinds] + [_row("all", pairs)]


def _of_kind(pair: tuple[set[Span], set[Span]], kind: str) -> tuple[set[Span], set[Span]]:
    one, other = ({span for span in side if span[0] == kind} for side in pair)
    return one, other


def _row(kind: str, pairs: Sequence[tuple[set[Span], set[Span]]]) -> dict[str, str | int | float]:
    hits = sum(len(one & other) for one, other in pairs)
    true, predicted = sum(len(one) for one, _ in pairs), sum(len(other) for _, other in pairs)
    f1 = 2 * hits / (true + predicted) if true + predicted else 0.0
    precision, recall = (hits / count if count else 0.0 for count in (predicted, true))
    return {"class": kind, "count": true, "precision": precision, "recall": recall, "f1": f1}
