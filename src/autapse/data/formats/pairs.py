"""Pairs of texts: a source and a target per line, with a tab between them, or two columns of a .csv file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from autapse import checks
from autapse.data.formats.timeseries import number_or_none, suffix
from autapse.data.reading import read_bytes, text_lines

SUFFIXES = (".tsv", ".csv", ".txt")
HEADER = ("source", "target")
LOOK = 20  # lines that are looked at


class Pair(NamedTuple):
    """A source and its target."""

    place: str  # where they are, for messages: the file and the line
    source: str
    target: str


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs of texts.

    Args:
        path: a file: .tsv or .txt with a source, a tab and a target per line; or .csv with a header, whose columns
            `source` and `target` are read, or else its first two. It may be compressed. Empty lines do not count.

    Returns:
        The pairs, in the order of the file.
    """
    checks.one_of(f"The ending of {path.name}", suffix(path), SUFFIXES)
    pairs = list(_from_csv(path) if suffix(path) == ".csv" else _from_lines(path))
    if not pairs:
        raise checks.InputError(f"{path} has no pair of texts.")
    for pair in pairs:
        for side in HEADER:
            if not getattr(pair, side).strip():
                raise checks.InputError(f"{pair.place}: the {side} is empty. Remove the line.")
    return pairs


def has_pairs(path: Path) -> bool:
    """Whether a table looks like pairs of texts: it has two columns, without numbers and names of sounds.

    Args:
        path: a file; one that cannot be read has no pairs.
    """
    if suffix(path) not in (".tsv", ".csv") or not path.is_file():
        return False
    try:
        lines = [line for line in _lines(path) if line.strip()][:LOOK]
        rows = list(csv.reader(lines, delimiter="\t" if suffix(path) == ".tsv" else ","))
    except (checks.InputError, OSError, csv.Error):
        return False
    return bool(rows) and all(len(row) == 2 for row in rows) and all(_is_text(cell) for row in rows for cell in row)


def _is_text(cell: str) -> bool:
    return number_or_none(cell) is None and not cell.lower().endswith(".wav")


def read_sources(path: Path) -> tuple[list[str], list[str] | None]:
    """Read texts to translate.

    Args:
        path: a .txt file with one text per line; or pairs as in `read_pairs`, if every line has a target.

    Returns:
        The texts, an empty one for an empty line; and their targets, or None if there are none.
    """
    checks.one_of(f"The ending of {path.name}", suffix(path), SUFFIXES)
    if suffix(path) == ".csv":
        pairs = read_pairs(path)
        return [pair.source for pair in pairs], [pair.target for pair in pairs]
    rows = [line.split("\t") for line in _lines(path)]
    paired = all(len(row) > 1 for row in rows)
    return [row[0] for row in rows], [row[1] for row in rows] if paired else None


def _lines(path: Path) -> list[str]:
    content = read_bytes(path).removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    return text_lines(content + b"\n", path)


def _from_lines(path: Path) -> Iterator[Pair]:
    for n, line in enumerate(_lines(path), 1):
        cells = line.split("\t")
        if not line.strip() or (n == 1 and tuple(cells[:2]) == HEADER):
            continue
        if len(cells) < 2:
            checks.fail(f"{path}, line {n}", "have a source and a target, with a tab between them", _short(line))
        yield Pair(f"{path}, line {n}", cells[0], cells[1])


def _from_csv(path: Path) -> Iterator[Pair]:
    try:
        rows = csv.reader((f"{line}\n" for line in _lines(path)), strict=True)
        head = [cell.strip() for cell in next(rows, [])]
        if len(head) < 2:
            checks.fail(f"{path}, line 1", "name at least two columns", head)
        places = [head.index(name) for name in HEADER] if set(HEADER) <= set(head) else [0, 1]
        for cells in rows:
            if not cells:
                continue
            if len(cells) != len(head):
                checks.fail(f"{path}, line {rows.line_num}", f"have {len(head)} cells, as the first line", len(cells))
            yield Pair(f"{path}, line {rows.line_num}", cells[places[0]], cells[places[1]])
    except csv.Error as error:
        raise checks.InputError(f"{path}, line {rows.line_num}: {error}.") from None


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
