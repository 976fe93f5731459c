"""Decimal numbers in text, many cells at once, by numpy alone.

Eight digits are one 64-bit word: a few multiplications turn the word into its value, for all cells together. Cells that
are not plain decimals (exponents, NaN, very long numbers) are read one by one by Python.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

PAD = 32  # bytes before and after the text in the buffer, so that words may be read past its ends
MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "nan", "null", "none"})  # in lower case
ALLOW = 'To allow missing values, choose missing="mask" (--missing mask), forward or mean'

# Thousands between marks: 1,234,567 or 1'234 or 1 234.5. One comma alone, as in 1,234, may be a decimal comma.
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([,' \u2019\u00a0\u202f])\d{3}(?:\1\d{3})*(?:\.\d+)?")
_UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")

_U = np.uint64
_BYTES = np.array([2**64 - 2 ** (64 - 8 * n) for n in range(9)], dtype=np.uint64)  # the last n bytes of a word
_ZEROS = _BYTES & _U(0x3030303030303030)  # n times "0"
_MOST = 24  # digits before or after the point that are read at once
_TENS = np.array([10**n for n in range(20)], dtype=np.uint64)
_POWERS = np.array([float(f"1e{n}") for n in range(-60, 61)])  # correctly rounded, which ** is not; 1 at index 60


class Numbers(NamedTuple):
    """Values of cells. Cells that are not numbers are listed; their values have no meaning."""

    values: np.ndarray  # [n] float64, NaN for missing values
    wrong: np.ndarray  # indices of cells that are neither numbers nor missing values


def is_grouped(cell: str) -> bool:
    """Whether a cell is a number with marks between thousands for sure.

    >>> [is_grouped(cell) for cell in ("1,234.5", "1'234", "1,234", "1234")]
    [True, True, False, False]
    """
    return bool(_GROUPED.fullmatch(cell) and not _UNCLEAR.fullmatch(cell))


def buffer(text: bytes) -> np.ndarray:  # [bytes] uint8
    """Text as bytes, with room before and after it, and a length that is a multiple of 8."""
    made = np.zeros(PAD + len(text) + PAD + 8 - len(text) % 8, dtype=np.uint8)
    made[PAD : PAD + len(text)] = np.frombuffer(text, dtype=np.uint8)
    return made


def words(text: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> np.ndarray:  # [n] uint64
    """The last `lengths` bytes (at most 8) before each end, as words; the other bytes are 0."""
    aligned, first = text.view(np.uint64), ends - 8
    place, shift = first >> 3, ((first & 7) << 3).astype(np.uint64)
    low, high = aligned[place] >> shift, (aligned[place + 1] << _U(1)) << (_U(63) - shift)
    return (low | high) & _BYTES[lengths]


def parse(
    text: np.ndarray,
    starts: np.ndarray,
    points: np.ndarray,
    exponents: np.ndarray | None,
    ends: np.ndarray,
    single: bool,
    groups: bool = False,
) -> Numbers:
    """The values of cells.

    Args:
        text: The bytes, as `buffer` made them.
        starts: Where each cell starts in `text`, without blanks.
        points: Where the decimal point of each cell is; its end if it has none.
        exponents: Where the "e" of each cell is; its end if it has none. None if no cell has one.
        ends: Where each cell ends.
        single: Whether the values are for float32. If not, they are rounded to float64 exactly, which is slower for
            numbers with more than 15 digits. Rounded to float32 they are exact in both cases.
        groups: Whether a comma is between thousands for sure, so that 1,234 is a number too.
    """
    begin, negative = _after_sign(text, starts)
    stop, point = (ends, points) if exponents is None else (exponents, np.minimum(points, exponents))
    whole, part = point - begin, np.maximum(stop - point - 1, 0)
    integer, _, good = _digits(text, point, np.clip(whole, 0, 16))
    fraction, top, also = _digits(text, stop, np.minimum(part, _MOST))
    plain = good & also & (whole >= 0) & (whole <= 16) & (part <= _MOST) & (whole + part > 0)
    with np.errstate(over="ignore"):
        mantissa = integer * _TENS[np.minimum(part, 19)] + fraction
    exact = (whole + part <= 18) & (part <= 16) & (mantissa < _U(2**53))
    power: np.ndarray | int = 0
    if exponents is not None:
        power, readable = _power(text, exponents, ends)
        plain, exact = plain & readable, exact & (power == 0)
    divisor = _POWERS[60 + np.minimum(part, _MOST)]
    values = mantissa / divisor
    if not exact.all():
        near = (integer + (fraction + top * 1e16) / divisor) * _POWERS[60 + power]
        values = np.where(exact, values, near)
    slow = ~plain | ~(exact | _safe(values) if single else exact)
    np.negative(values, out=values, where=negative)
    return _one_by_one(text, starts, ends, values, np.flatnonzero(slow), groups)


def _after_sign(text: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the digits begin, and whether a minus is before them."""
    first = text[starts]
    negative = first == ord("-")
    return starts + (negative | (first == ord("+"))), negative


def _power(text: np.ndarray, exponents: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The exponent of each cell, 0 if it has none; and whether it could be read."""
    power, readable = np.zeros(len(ends), dtype=np.int64), np.ones(len(ends), dtype=bool)
    at = np.flatnonzero(exponents < ends)
    if len(at):
        begin, negative = _after_sign(text, exponents[at] + 1)
        length = ends[at] - begin
        value, _, good = _digits(text, ends[at], np.clip(length, 0, 8))
        readable[at] = good & (length >= 1) & (length <= 8) & (value <= _U(60))
        power[at] = np.where(readable[at], np.where(negative, -1, 1) * value.astype(np.int64), 0)
    return power, readable


def _digits(text: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The value of up to 16 digits before each end, of up to 8 digits before those; and whether all are digits."""
    values, good = _eight(text, ends, np.minimum(lengths, 8))
    top = np.zeros(1, dtype=np.uint64)
    longest = lengths.max(initial=0)
    if longest > 8:
        high, also = _eight(text, ends - 8, np.clip(lengths - 8, 0, 8))
        values, good = values + high * _U(10**8), good & also
    if longest > 16:
        top, also = _eight(text, ends - 16, np.clip(lengths - 16, 0, 8))
        good = good & also
    return values, top, good


def _eight(text: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    word = words(text, ends, lengths) ^ _ZEROS[lengths]  # each byte is now the value of a digit
    with np.errstate(over="ignore"):  # words wrap around
        good = ((word + _U(0x7676767676767676)) | word) & _U(0x8080808080808080) == 0  # each byte is below 10
        word = word * _U(10) + (word >> _U(8))
        pairs = (word & _U(0xFF000000FF)) * _U(0x000F424000000064)
        pairs += ((word >> _U(16)) & _U(0xFF000000FF)) * _U(0x0000271000000001)
    return pairs >> _U(32), good


def _safe(values: np.ndarray) -> np.ndarray:
    """Whether an error in the last bits of a value cannot change how it is rounded to float32."""
    rest = values.view(np.uint64) & _U(2**29 - 1)  # the bits that float32 does not have
    return np.abs(rest.astype(np.int64) - 2**28) > 8


def _one_by_one(
    text: np.ndarray, starts: np.ndarray, ends: np.ndarray, values: np.ndarray, at: np.ndarray, groups: bool
) -> Numbers:
    wrong = []
    content = text.tobytes() if len(at) else b""
    for n, start, end in zip(at.tolist(), starts[at].tolist(), ends[at].tolist(), strict=True):
        try:
            values[n] = float(content[start:end])
        except ValueError:
            cell = content[start:end].decode(errors="replace")
            values[n] = _grouped(cell) if groups or not _UNCLEAR.fullmatch(cell) else np.nan
            if np.isnan(values[n]) and cell.lower() not in MISSING:
                wrong.append(n)
    return Numbers(values, np.array(wrong, dtype=np.int64))


def _grouped(cell: str) -> float:
    """A number with marks between thousands; NaN if it is not one."""
    match = _GROUPED.fullmatch(cell)
    return float(cell.replace(match[1], "")) if match else np.nan
