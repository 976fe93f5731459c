"""Vectors that sequences depend on, as people pass them: names of classes, numbers, or rows of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autapse import checks

Words = Sequence[Sequence[str]]


def read_vectors(x: Any, columns: int, vocabularies: Sequence[int], words: Words = ()) -> tuple[np.ndarray, bool]:
    """One or many vectors as an array, and whether it is one.

    Args:
        x: one vector: its entries as a list or an array; with one column also the entry alone. Many: a list of vectors,
            or an array [N, columns]; with one column also [N]. An entry of a column with words is a name or a number.
        columns: entries of a vector: first those with words.
        vocabularies: number of words of each column with words.
        words: their names; empty if they have none.

    Returns:
        [N, columns] of integers if all columns have words, otherwise of float64.

    >>> read_vectors(["b", "a"], 1, [2], [("a", "b")])
    (array([[1],
           [0]]), False)
    """
    rows, single = _rows(x, columns)
    made = [_vector(row, n if not single else None, columns, vocabularies, words) for n, row in enumerate(rows)]
    if not made:
        checks.fail("x", "have at least one vector", 0)
    return np.array(made, dtype=np.int64 if len(vocabularies) == columns else np.float64), single


def _rows(x: Any, columns: int) -> tuple[list[Any], bool]:
    listed = x.tolist() if hasattr(x, "tolist") else x
    if isinstance(listed, str | int | float):
        return [[listed]], True
    if not isinstance(listed, list | tuple):
        rule = f"be a vector with {columns} entries, or a list of them"
        checks.fail("x", rule, type(x).__name__, kind=checks.KindError)
    if any(isinstance(one, list | tuple) or (hasattr(one, "tolist") and np.ndim(one)) for one in listed):
        return [one.tolist() if hasattr(one, "tolist") else one for one in listed], False
    return ([[one] for one in listed], False) if columns == 1 else ([listed], True)


def _vector(
    row: Any, n: int | None, columns: int, vocabularies: Sequence[int], words: Words
) -> list[float]:  # [columns]
    name = "x" if n is None else f"x[{n}]"
    if not isinstance(row, list | tuple) or len(row) != columns:
        got = len(row) if isinstance(row, list | tuple) else row
        checks.fail(name, f"have {columns} {'entry' if columns == 1 else 'entries'}", got, kind=checks.ShapeError)
    entries: list[float] = []
    for column, entry in enumerate(row):
        if column < len(vocabularies):
            names = words[column] if column < len(words) else ()
            entries.append(_word(name, entry, vocabularies[column], names))
        else:
            entries.append(checks.number(name, entry))
    return entries


def _word(name: str, entry: Any, count: int, names: Sequence[str]) -> int:
    if isinstance(entry, str):
        if entry not in names:
            listed = f"be one of {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
            checks.fail(name, listed if names else "be numbers, since the classes have no names", entry)
        return list(names).index(entry)
    return checks.integer(name, entry, minimum=0, maximum=count - 1)
