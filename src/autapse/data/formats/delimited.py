"""Text tables, read by columns: cells between commas, semicolons or tabs, with or without quotes.

The text is read in pieces of a few megabytes. In each piece numpy finds all separators at once, and then reads whole
columns. So the memory needed is the text, the columns that were asked for, and little else.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn, TypeVar

import numpy as np

from autapse import checks
from autapse.data.formats import decimals
from autapse.data.formats.times import TimeError, dates, is_date
from autapse.data.reading import read_bytes

Reading = Literal["numbers", "texts", "times"]
"""How a column is read: as numbers (float64), as texts (a code for each distinct text), or as times (seconds)."""

PIECE = 1 << 19  # bytes; the arrays of a piece fit into the cache of a core
THREADS = min(4, os.cpu_count() or 1)
DELIMITERS = ";\t,"
SAVE = "Save it as UTF-8 (in Excel: CSV UTF-8)."
HEAD = 100  # rows that are looked at first
WIDEST = 64  # bytes of texts that are compared by numpy
COMMA_DECIMAL = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
# No two repetitions of digits are adjacent, so that a cell of a million digits takes no longer than its length.
HUGE = re.compile(r"[+-]?\d*(?:[.,]\d*)?[eE]\+?\d+|[+-]?\d{38,}(?:[.,]\d*)?")
INFINITE = ("inf", "infinity")
UNCLEAR = re.compile(r"[+-]?\d{1,3}[.,]\d{3}")
_DELIMITER, _NEWLINE, _POINT, _EXPONENT, _QUOTE = range(1, 6)


T = TypeVar("T")
U = TypeVar("U")


class Texts(NamedTuple):
    """A column of texts: `names[codes[n]]` is the text of row n."""

    codes: np.ndarray  # [rows] int64
    names: list[str]  # in the order of their first rows


Column = np.ndarray | Texts


@dataclass(frozen=True)
class Delimited:
    """A table in text. `read` gives its columns."""

    path: Path
    content: bytes
    delimiter: str
    header: list[str]  # the cells of the first line
    begin: int  # where the rows begin in `content`

    @classmethod
    def open(cls, path: Path) -> Delimited:
        """Read a file and the cells of its first line. The delimiter is the one that the first line has."""
        content = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
        if b"\r" in content[: 1 << 16] and b"\n" not in content:
            content = content.replace(b"\r", b"\n")
        begin = 0
        while content[begin : begin + 1] in (b"\n", b"\r"):
            begin += 1
        end = _line_end(content, begin)
        try:
            line = content[begin:end].decode()
        except UnicodeDecodeError as error:
            raise checks.InputError(f"{path}, byte {begin + error.start}: it is not UTF-8 text. {SAVE}") from None
        outside = re.sub(r'"[^"]*"', "", line)
        delimiter = next((mark for mark in DELIMITERS if mark in outside), ",")
        try:
            header = [cell.strip() for row in csv.reader([line], delimiter=delimiter, strict=True) for cell in row]
        except csv.Error as error:
            raise checks.InputError(f"{path}, line {_line(content, begin)}: {error}.") from None
        return cls(path, content, delimiter, header, min(end + 1, len(content)))

    def headless(self) -> Delimited:
        """The same table, if the first line is a row and no header. The columns get numbers as names."""
        names = [f"column {n}" for n in range(1, len(self.header) + 1)]
        return Delimited(self.path, self.content, self.delimiter, names, 0)

    def check_header(self) -> None:
        """A table with a header has rows, and different names."""
        if not re.compile(rb"\S").search(self.content, self.begin):
            raise checks.InputError(f"{self.path} has no rows below a header.")
        name, count = Counter(self.header).most_common(1)[0]
        if count > 1:
            raise checks.InputError(f"{self.path}, line 1: column {name!r} occurs {count} times.")

    @cached_property
    def point(self) -> str:
        """The decimal point: a comma if the first rows have numbers such as 1,5 and the cells end in other marks."""
        marked = [cell for cell in self._sample if "," in cell or "." in cell]
        if self.delimiter == "," or any(map(decimals.is_grouped, marked)):
            return "."
        return "," if any(COMMA_DECIMAL.fullmatch(c) or decimals.is_grouped(_swapped(c)) for c in marked) else "."

    @cached_property
    def groups(self) -> bool:
        """Whether the first rows have numbers such as 1,234.5, so that 1,234 can only be 1234."""
        return any(map(decimals.is_grouped, map(_swapped, self._sample) if self.point == "," else self._sample))

    @cached_property
    def _sample(self) -> list[str]:
        """The cells of the first rows."""
        lines = self.content[self.begin : self.begin + (1 << 16)].decode(errors="replace").splitlines()[:1000]
        return [cell.strip(' "') for row in csv.reader(lines, delimiter=self.delimiter) for cell in row]

    def head(self, name: str) -> list[str]:
        """The cells of a column in the first rows."""
        piece, place = self._first, self.header.index(name)
        return [] if piece is None else [piece.cell(row, place) for row in range(min(piece.rows, HEAD))]

    @cached_property
    def _first(self) -> _Piece | None:
        return next(self._pieces(), None)

    def read(
        self, columns: Mapping[str, Reading], values: Sequence[str] = (), missing: bool = True
    ) -> tuple[dict[str, Column], np.ndarray]:
        """Some columns by name, and others as one matrix of values, [rows, columns] float32.

        Args:
            columns: How to read which column.
            values: The columns of the matrix.
            missing: Whether values may be missing (NaN). Numbers and times may not, and texts are never empty.
        """
        places = {name: n for n, name in enumerate(self.header)}
        ways = {name: self._way(name, way) for name, way in columns.items()}
        numeric = [name for name, way in ways.items() if way == "numbers"]
        chosen = np.array([places[name] for name in values], dtype=np.int64)

        def numbers(bounds: tuple[int, int]) -> tuple[_Piece, list[np.ndarray], np.ndarray]:
            piece = _Piece.cut(self, *bounds)
            own = [piece.numbers(np.array([places[name]]), single=False, missing=False)[:, 0] for name in numeric]
            return piece, own, piece.numbers(chosen, single=True, missing=missing)

        parts: dict[str, list[np.ndarray]] = {name: [] for name in columns}
        known: dict[str, dict[str, int]] = {name: {} for name in columns}
        matrix = np.empty((self.content.count(b"\n", self.begin) + 1, len(values)), dtype=np.float32)
        filled = 0
        for piece, own, part in _in_threads(numbers, self._bounds()):
            if not piece.rows:  # only empty lines
                continue
            matrix[filled : filled + piece.rows] = part
            filled += piece.rows
            for name, column in zip(numeric, own, strict=True):
                parts[name].append(column)
            for name, way in ways.items():
                if way == "texts":
                    parts[name].append(piece.texts(places[name], known[name]))
                elif way == "times":
                    parts[name].append(piece.times(places[name]))
        if not filled:
            raise checks.InputError(f"{self.path} has no rows.")
        made: dict[str, Column] = {}
        for name, way in ways.items():
            whole = np.concatenate(parts.pop(name))
            made[name] = Texts(whole, list(known[name])) if way == "texts" else whole
        return made, matrix[:filled]

    def _way(self, name: str, way: Reading) -> Reading:
        """Times may be numbers or dates."""
        return "numbers" if way == "times" and not any(map(is_date, self.head(name)[:1])) else way

    def line(self, row: int) -> int:
        """The number of the line, counted from 1, on which a row begins."""
        for piece in self._pieces():
            if row < piece.rows:
                return piece.line(row)
            row -= piece.rows
        return _line(self.content, len(self.content))

    def fail(self, row: int, column: str, reason: str) -> NoReturn:
        raise checks.InputError(f"{self.path}, line {self.line(row)}, column {column!r}: {reason}.")

    def _pieces(self) -> Iterator[_Piece]:
        return (_Piece.cut(self, *bounds) for bounds in self._bounds())

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Where pieces of whole rows start and stop. A line break between quotes is inside a row."""
        start, end = self.begin, len(self.content)
        while start < end:
            stop = self.content.rfind(b"\n", start, start + PIECE) + 1
            quotes = self.content.count(b'"', start, stop)
            while not stop or quotes % 2:
                line = max(stop, start)
                stop = self.content.find(b"\n", line) + 1 or end
                quotes += self.content.count(b'"', line, stop)
                if stop == end:
                    break
            yield start, stop
            start = stop


@dataclass(frozen=True, eq=False)
class _Piece:
    """Whole rows of a table. Positions of cells are places in `text`."""

    table: Delimited
    text: np.ndarray  # [bytes] uint8
    start: int  # where it starts in the content
    starts: np.ndarray  # [columns, rows]
    ends: np.ndarray  # [columns, rows]
    points: np.ndarray  # [columns, rows] the decimal point, or the end
    exponents: np.ndarray | None  # [columns, rows] the exponent's e, or the end; None if no cell has one

    @classmethod
    def cut(cls, table: Delimited, start: int, stop: int) -> _Piece:
        """The rows between two places of the content."""
        content = table.content[start:stop]
        _check_text(table, start, content)
        text = decimals.buffer(content if content.endswith(b"\n") else content + b"\n")
        marks, kinds = _marks(text, table.delimiter, table.point)
        if (kinds == _QUOTE).any():
            marks, kinds = _outside(table, start, marks, kinds)
        return cls(table, text, start, *_cells(table, text, start, marks, kinds))

    @property
    def rows(self) -> int:
        return self.starts.shape[1]

    def cell(self, row: int, place: int) -> str:
        start, end = self.starts[place, row], self.ends[place, row]
        return _unquoted(self.text[start:end].tobytes())

    def line(self, row: int) -> int:
        return _line(self.table.content, self.start + int(self.starts[0, row]) - decimals.PAD)

    def fail(self, row: int, place: int, reason: str) -> NoReturn:
        raise checks.InputError(
            f"{self.table.path}, line {self.line(row)}, column {self.table.header[place]!r}: {reason}."
        )

    def numbers(self, places: np.ndarray, single: bool, missing: bool) -> np.ndarray:  # [rows, places]
        """The numbers of some columns, float32 or float64; NaN for missing ones, if they are allowed."""
        starts, points, ends = (part[places].reshape(-1) for part in (self.starts, self.points, self.ends))
        exponents = None if self.exponents is None else self.exponents[places].reshape(-1)
        text = self.text
        if self.table.point != ".":  # Python reads some of the cells: 1,5 is a number for it now, and 1.5 is not
            text = np.where(text == ord("."), ord(","), text).astype(np.uint8)
            text[points[points < ends]] = ord(".")
        values, wrong = decimals.parse(text, starts, points, exponents, ends, single, self.table.groups)
        bad = ~(np.abs(values) <= LARGEST)  # also NaN
        if missing:
            bad &= ~np.isnan(values)
        bad[wrong] = True
        if bad.any():
            place, row = divmod(int(bad.argmax()), self.rows)
            self._wrong_number(row, int(places[place]), single)
        made = values.reshape(len(places), self.rows).T
        return made.astype(np.float32) if single else made

    def _wrong_number(self, row: int, place: int, value: bool) -> NoReturn:
        cell = self.cell(row, place)
        reason = f"{cell!r} is not a finite number" if cell else "the cell is empty"
        if value and cell.lower() in decimals.MISSING:
            reason += f". {decimals.ALLOW}"
        elif UNCLEAR.fullmatch(cell):
            readings = (cell.replace(mark, other) for mark in ".," for other in ("", ".") if mark in cell)
            reason = f"{cell!r} may be {' or '.join(readings)}. Write thousands without a mark between them"
        elif self.table.point == "," and "." in cell:
            reason += ". Other numbers in the file have a decimal comma"
        elif HUGE.fullmatch(cell):
            reason = f"{cell!r} is too large: numbers must be below 3.4e38"
        elif value and cell.strip("+-").lower() not in INFINITE and not any(c.isdigit() for c in cell):
            reason += (
                ". To use only some columns, name them with --channels; --sequence-column names that of the series"
            )
        self.fail(row, place, reason)

    def times(self, place: int) -> np.ndarray:  # [rows] float64
        """Dates and times of day, in seconds."""
        cells = [self.cell(row, place) for row in range(self.rows)]
        try:
            return dates(cells)
        except TimeError as error:
            self.fail(error.row, place, f"{cells[error.row]!r} is not a date or a time{error.hint}")

    def texts(self, place: int, known: dict[str, int]) -> np.ndarray:  # [rows] int64
        """A code for each text of a column. New texts are added to `known`."""
        starts, ends = self.starts[place], self.ends[place]
        lengths = ends - starts
        if not lengths.all():
            self.fail(int((lengths == 0).argmax()), place, "the cell is empty")
        keys = _keys(self.text, starts, ends, lengths)
        # Rows of one sequence are mostly together, so look only at the rows where the text changes.
        changes = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
        _, first, inverse = np.unique(keys[changes], return_index=True, return_inverse=True)
        codes = np.empty(len(first), dtype=np.int64)
        for n in np.argsort(first, kind="stable").tolist():
            text = self.cell(int(changes[first[n]]), place)
            codes[n] = known.setdefault(text, len(known))
        return np.repeat(codes[inverse.reshape(-1)], np.diff(np.append(changes, self.rows)))


LARGEST = float(np.finfo(np.float32).max)


def _in_threads(work: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """The results of `work` in the order of the items, a few of them ahead in other threads. numpy runs beside them."""
    with ThreadPoolExecutor(THREADS) as pool:
        ahead: deque[Future[U]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(work, item))
                if len(ahead) > THREADS:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def _marks(text: np.ndarray, delimiter: str, point: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the bytes are that matter, and what they are."""
    table = bytearray(256)
    for mark, kind in (("\n", _NEWLINE), (point, _POINT), ("e", _EXPONENT), ("E", _EXPONENT), ('"', _QUOTE)):
        table[ord(mark)] = kind
    table[ord(delimiter)] = _DELIMITER
    kinds = np.frombuffer(text.tobytes().translate(table), dtype=np.uint8)  # faster than numpy's own lookup
    marks = np.flatnonzero(kinds != 0)
    return marks, kinds[marks]


def _outside(table: Delimited, start: int, marks: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The marks that are not between quotes. Points stay: numbers may be quoted."""
    quotes = np.cumsum(kinds == _QUOTE)
    inside = quotes % 2 == 1
    if inside[-1]:
        opening = int(marks[np.flatnonzero(kinds == _QUOTE)[-1]]) - decimals.PAD
        raise checks.InputError(f"{table.path}, line {_line(table.content, start + opening)}: unexpected end of data.")
    keep = (~inside & (kinds != _QUOTE)) | (kinds == _POINT) | (kinds == _EXPONENT)
    return marks[keep], kinds[keep]


def _cells(
    table: Delimited, text: np.ndarray, start: int, marks: np.ndarray, kinds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Where the cells of whole rows start and end, and where their decimal points and exponents are."""
    separates = kinds <= _NEWLINE
    ends = marks[separates]
    starts = np.concatenate([[decimals.PAD], ends[:-1] + 1])
    before = np.cumsum(separates)  # how many cells have ended before a mark
    points = _first_of(before, marks, kinds == _POINT, ends)
    power = kinds == _EXPONENT
    exponents = _first_of(before, marks, power, ends) if power.any() else None
    keep = _check_rows(table, text, start, starts, ends, kinds[separates] == _NEWLINE)

    def by_column(part: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray((part if keep is None else part[keep]).reshape(-1, len(table.header)).T)

    starts, ends = _trim(table, text, start, by_column(starts), by_column(ends))
    points = np.minimum(by_column(points), ends)
    return starts, ends, points, None if exponents is None else np.minimum(by_column(exponents), ends)


def _first_of(before: np.ndarray, marks: np.ndarray, chosen: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The first of the chosen marks in each cell; the end of a cell that has none."""
    made = ends.copy()
    made[before[chosen][::-1]] = marks[chosen][::-1]  # reversed, so that the first one is written last
    return made


def _check_rows(
    table: Delimited, text: np.ndarray, start: int, starts: np.ndarray, ends: np.ndarray, newline: np.ndarray
) -> np.ndarray | None:
    """Which cells belong to rows; None for all of them. Empty lines are not rows."""
    last = np.flatnonzero(newline)
    counts = np.diff(np.concatenate([[-1], last]))
    empty = (counts == 1) & (ends[last] - starts[last] - (text[ends[last] - 1] == ord("\r")) <= 0)
    wrong = (counts != len(table.header)) & ~empty
    if wrong.any():
        row = int(wrong.argmax())
        line = _line(table.content, start + int(starts[last[row] - counts[row] + 1]) - decimals.PAD)
        first = "header" if table.begin else "first line"
        raise checks.InputError(
            f"{table.path}, line {line}: it has {counts[row]} cells, but the {first} has {len(table.header)}."
        )
    return np.repeat(~empty, counts) if empty.any() else None


def _trim(
    table: Delimited, text: np.ndarray, start: int, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cells without the blanks and the quotes around them."""
    ends[-1] -= (text[ends[-1] - 1] == ord("\r")) & (ends[-1] > starts[-1])
    blanks = ((text == ord(" ")) | (text == ord("\t"))).any()
    starts, ends = _without_blanks(text, starts, ends) if blanks else (starts, ends)
    if (text == ord('"')).any():
        opened = (text[starts] == ord('"')) & (ends > starts)
        count = np.concatenate([[0], np.cumsum(text == ord('"'))])
        inner = count[ends] - count[starts] - 2 * opened
        closed = (text[ends - 1] == ord('"')) & (ends - starts > 1)
        wrong = (opened & ~closed) | (~opened & (inner > 0)) | (inner < 0)
        if wrong.any():
            place, row = np.argwhere(wrong)[0]
            line = _line(table.content, start + int(starts[place, row]) - decimals.PAD)
            reason = "a cell with a quote must begin and end with a quote, and have quotes doubled inside"
            raise checks.InputError(f"{table.path}, line {line}, column {table.header[place]!r}: {reason}.")
        starts, ends = _without_blanks(text, starts + opened, ends - opened)
    return starts, ends


def _without_blanks(text: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    blank = np.zeros(256, dtype=bool)
    blank[[ord(" "), ord("\t")]] = True
    while (more := blank[text[starts]] & (starts < ends)).any():
        starts = starts + more
    while (more := blank[text[ends - 1]] & (starts < ends)).any():
        ends = ends - more
    return starts, ends


def _keys(text: np.ndarray, starts: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """An array that has equal entries if and only if the texts are equal."""
    longest = int(lengths.max())
    if longest <= 8:
        return decimals.words(text, ends, lengths)
    if longest > WIDEST:
        content = text.tobytes()
        seen: dict[bytes, int] = {}
        cells = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.array([seen.setdefault(content[start:end], len(seen)) for start, end in cells])
    rows = np.lib.stride_tricks.sliding_window_view(text, longest)[np.minimum(starts, len(text) - longest)].copy()
    shift = starts - np.minimum(starts, len(text) - longest)
    rows[np.arange(longest) >= (lengths + shift)[:, None]] = 0
    return np.ascontiguousarray(rows).view(f"S{longest}").reshape(-1)


def _check_text(table: Delimited, start: int, content: bytes) -> None:
    if b"\0" in content:
        line = _line(table.content, start + content.index(b"\0"))
        raise checks.InputError(f"{table.path}, line {line}: it is not text: it has a zero byte.")
    if content.isascii():
        return
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise checks.InputError(f"{table.path}, byte {start + error.start}: it is not UTF-8 text. {SAVE}") from None


def _swapped(cell: str) -> str:
    """A cell with points for commas and commas for points."""
    return cell.translate({ord("."): ",", ord(","): "."})


def _unquoted(cell: bytes) -> str:
    return cell.decode(errors="replace").replace('""', '"')


def _line(content: bytes, place: int) -> int:
    return content.count(b"\n", 0, place) + 1


def _line_end(content: bytes, begin: int) -> int:
    """The end of the first line; line breaks between quotes do not end it."""
    place = begin
    while True:
        end = content.find(b"\n", place)
        if end < 0:
            return len(content)
        if content.count(b'"', begin, end) % 2 == 0:
            return end
        place = end + 1
