"""Reviews with their ratings: Yelp (JSON lines or CSV, 1 to 5 stars) and IMDB (one file per review, good or bad)."""

from __future__ import annotations

import csv
import gzip
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from itertools import islice, product
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from autapse import checks, files
from autapse.data.archives import open_tree, tar_files, zip_archive
from autapse.data.decompress import BROKEN
from autapse.data.reading import damaged, open_member

STARS = 5
BREAK = re.compile(r"<br\s*/?>|\\n|\\r")  # HTML in IMDB; Yelp's CSV has \\n for line breaks
TOKEN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
YELP = re.compile(r"(?:.*/)?(?:(train|test)\.csv|yelp_academic_dataset_review\.json)(?:\.gz)?")
IMDB = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/\d+_\d+\.txt")
LONGEST = 16 << 20  # largest line in bytes; Yelp's longest has about ten thousand
TEXT, LABEL = "text", ("stars", "label")


class Review(NamedTuple):
    """One review; an empty one has no words."""

    words: list[str]
    label: int  # Yelp: stars − 1; IMDB: 0 bad, 1 good
    split: str  # "train" or "test"; "all" if the data set is not split


def tokenise(text: str) -> list[str]:
    """Split a text into lower-case words and punctuation marks. Apostrophes inside words are kept; <br /> is dropped.

    >>> tokenise("Don't go!<br />Never.")
    ["don't", 'go', '!', 'never', '.']
    """
    return TOKEN.findall(BREAK.sub(" ", text.lower()))


def iterate_yelp(path: Path, limit: int | None = None) -> Iterator[Review]:
    """Yelp's reviews, one at a time; the first `limit` of each file.

    `path` is a folder, a .tar (.tgz) or a .zip with yelp_academic_dataset_review.json, or with train.csv and test.csv,
    .gz or not; or a single .json or .csv file.
    """
    if limit is not None:
        checks.integer("limit", limit, minimum=1)
    is_yelp = False
    for name, stream in _yelp_files(path):
        is_yelp = True
        known = YELP.fullmatch(name)
        split = (known and known[1]) or "all"
        read = _json if name.removesuffix(".gz").endswith(".json") else _csv
        for text, label in islice(read(_lines(stream, name), name), limit):
            yield Review(tokenise(text), label, split)
    if not is_yelp:
        raise checks.InputError(f"{path} has neither train.csv and test.csv nor yelp_academic_dataset_review.json.")


def iterate_imdb(path: Path) -> Iterator[Review]:
    """IMDB's reviews, one at a time, in the order of their names, from the folder aclImdb or from aclImdb_v1.tar.gz.

    The files are {train,test}/{neg,pos}/<n>_<rating>.txt.
    """
    with open_tree(path) as tree:
        places = {name: (match[1], match[2]) for name in tree.names() if (match := IMDB.fullmatch(name))}
        for split, kind in product(("train", "test"), ("neg", "pos")):
            if (split, kind) not in places.values():
                raise checks.InputError(f"{path}/{split}/{kind} has no review <n>_<rating>.txt.")
        for name, (split, kind) in places.items():
            text = _decoded(tree.raw(name), tree.where(name), 1)
            yield Review(tokenise(text), int(kind == "pos"), split)


def _yelp_files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and open stream of each file of reviews. Nothing is unpacked to disk or kept in memory."""
    if path.is_dir():
        for name in sorted(str(p) for p in path.rglob("*") if p.is_file() and YELP.fullmatch(p.name)):
            with files.open_regular(Path(name)) as file:
                yield name, file
    elif not path.exists():
        raise checks.InputError(f"{path} is missing.")
    elif PurePosixPath(path.name.removesuffix(".gz")).suffix in (".json", ".csv"):
        with files.open_regular(path) as file:
            yield str(path), file
    else:
        yield from _archived(path)


def _archived(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with files.open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            yield from ((f"{path}/{name}", part) for name, part in tar_files(path) if YELP.fullmatch(name))
            return
        with zip_archive(file, path) as archive:
            for name in filter(YELP.fullmatch, archive.namelist()):
                with open_member(archive, name, path, held=False) as part:
                    yield f"{path}/{name}", part


def _lines(stream: IO[bytes], name: str) -> Iterator[str]:
    """The lines of a stream, compressed or not. Only one line is in memory at a time."""
    number = 0
    content: Any = gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream
    try:
        while line := content.readline(LONGEST + 1):
            number += 1
            if len(line) > LONGEST:
                damaged(name, f"line {number}", f"it has more than {LONGEST} bytes")
            yield _decoded(line, name, number)
    except BROKEN as error:
        damaged(name, f"line {number + 1}", f"it cannot be decompressed ({error})")


def _decoded(content: bytes, name: str, line: int) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        damaged(name, f"line {line}", f"byte {error.start} of it is not UTF-8 text")


def _json(lines: Iterable[str], name: str) -> Iterator[tuple[str, int]]:
    """Text and label of each line {"stars": 4.0, "text": "..."}."""
    for number, line in enumerate(lines, 1):
        try:
            review = json.loads(line)
        except (ValueError, RecursionError) as error:  # also for very long numbers and deep nesting
            reason = str(error)
            if isinstance(error, json.JSONDecodeError):
                reason = f"{error.msg} at character {error.pos}"
            damaged(name, f"line {number}", f"it is not JSON ({reason})")
        if not isinstance(review, dict) or not isinstance(review.get(TEXT), str) or "stars" not in review:
            damaged(name, f"line {number}", 'it must have "stars" and "text"')
        yield review[TEXT], _label(review["stars"], 1, name, number)


def _csv(lines: Iterable[str], name: str) -> Iterator[tuple[str, int]]:
    """Text and label of each row: "4","..." with 1 to 5 stars.

    A header may name the columns: text, and stars (1 to 5) or label (0 to 4).
    """
    rows = csv.reader(lines, strict=True)
    row = _row(rows, name)
    columns = _columns(row or [], name)
    row = _row(rows, name) if columns.header else row
    while row is not None:
        if len(row) != columns.width:
            damaged(name, f"line {rows.line_num}", f"it has {len(row)} columns instead of {columns.width}")
        yield row[columns.text], _label(row[columns.label], columns.worst, name, rows.line_num)
        row = _row(rows, name)


class _Columns(NamedTuple):
    label: int
    text: int
    width: int
    header: bool
    worst: int  # the smallest rating


def _columns(row: list[str], name: str) -> _Columns:
    """The columns, from the first row."""
    heads = [head.strip().lower() for head in row]
    label = next((head for head in LABEL if head in heads), None)
    if label is not None and TEXT in heads:
        return _Columns(heads.index(label), heads.index(TEXT), len(row), True, int(label == "stars"))
    if len(row) != 2:
        damaged(
            name, "line 1", f"it has {len(row)} columns; without a header with stars or label, and text, it must have 2"
        )
    return _Columns(0, 1, 2, False, 1)


def _row(rows: Iterator[list[str]], name: str) -> list[str] | None:
    try:
        return next(rows, None)
    except csv.Error as error:
        damaged(name, f"line {rows.line_num}", f"it is not CSV ({error})")  # type: ignore[attr-defined]


def _label(value: object, first: int, name: str, line: int) -> int:
    """The class 0 to 4 of a rating; `first` is the worst rating."""
    try:
        rating = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        rating = -1.0
    if rating not in range(first, first + STARS):
        damaged(name, f"line {line}", f"{value!r} is not a rating from {first} to {first + STARS - 1}")
    return int(rating) - first
