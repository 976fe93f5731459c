"""Dates and times in text, as seconds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from datetime import datetime

import numpy as np

ISO = re.compile(r"\d{4}-\d\d?-\d\d?([T ]\d\d?:\d\d(:\d\d([.,]\d+)?)?)?( ?(Z|UTC|[+-]\d\d:?\d\d))?")
LOCAL = re.compile(
    r"(\d\d?)([./-])(\d\d?)\2(\d{4}|\d\d)(?:[T ,]+(\d\d?):(\d\d)(?::(\d\d(?:[.,]\d+)?))?)?( ?[AaPp][Mm])?"
)
CLOCK = re.compile(r"(\d{1,4}):(\d\d)(?::(\d\d(?:[.,]\d+)?))?")
SIMPLE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?")


class TimeError(ValueError):
    """A text is not a date or a time."""

    def __init__(self, row: int, hint: str = "") -> None:
        super().__init__(row)
        self.row, self.hint = row, hint


def is_date(text: str) -> bool:
    """Whether a text looks like a date or a time of day, rather than a number."""
    return any(pattern.fullmatch(text) for pattern in (ISO, LOCAL, CLOCK))


def dates(texts: Sequence[str]) -> np.ndarray:  # [n] float64
    """Dates or times of day, in seconds. Dates count from 1970 in UTC, or in their own zone if they name none.

    >>> dates(["1970-01-01 00:01", "01.01.1970 00:02:30"]).tolist(), dates(["0:01:30.5"]).tolist()
    ([60.0, 150.0], [90.5])
    """
    if texts and all(len(text) == len(texts[0]) for text in texts) and SIMPLE.fullmatch(texts[0]):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                stamps = np.array(texts, dtype="datetime64[us]")
            if not np.isnat(stamps).any():
                return stamps.astype(np.int64) / 1e6
        except (ValueError, Warning):
            pass
    day_first = _day_first(texts)
    return np.array([_seconds(row, text, day_first) for row, text in enumerate(texts)], dtype=np.float64)


def _day_first(texts: Sequence[str]) -> bool | None:
    """Whether dates such as 13/12/2024 start with the day; None if no text tells."""
    for text in texts:
        match = LOCAL.fullmatch(text)
        if match and match[2] == ".":
            return True
        if match and max(int(match[1]), int(match[3])) > 12:
            return int(match[1]) > 12
    return None


def _seconds(row: int, text: str, day_first: bool | None) -> float:
    if ISO.fullmatch(text):
        return _stamp(row, text.replace(",", ".").replace(" UTC", "Z").replace(" Z", "Z"))
    if match := CLOCK.fullmatch(text):
        return 3600.0 * int(match[1]) + 60.0 * int(match[2]) + float((match[3] or "0").replace(",", "."))
    match = LOCAL.fullmatch(text)
    if not match:
        raise TimeError(row)
    if day_first is None:
        raise TimeError(row, " that can be read in one way only: write it as 2024-12-31")
    day, month = (match[1], match[3]) if day_first else (match[3], match[1])
    year = int(match[4]) + (2000 if len(match[4]) == 2 else 0)
    hour, half = int(match[5] or 0), (match[8] or "").strip().lower()
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    second = float((match[7] or "0").replace(",", "."))
    return _stamp(row, f"{year:04}-{int(month):02}-{int(day):02}T{hour:02}:{match[6] or '00'}") + second


def _stamp(row: int, text: str) -> float:
    """Seconds since 1970 of a date in ISO 8601."""
    date, _, rest = text.replace("T", " ").partition(" ")
    whole = "-".join(part.zfill(2) for part in date.split("-")) + (f"T{rest.strip().zfill(5)}" if rest else "")
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        raise TimeError(row) from None
    zone = moment.utcoffset()
    seconds = (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
    return seconds - (zone.total_seconds() if zone else 0.0)
