"""Dates in many formats, to be written in one: a small translation in which order and words change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.data.symbols import SymbolTable
from autapse.tasks.base import IGNORE, SPLITS, Data, Generated, Kind, Metric, Signature, Split, WrittenShape, generator

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SOURCE = " ,./0123456789abcdefghijlmnoprstuvwy"  # the characters of all formats
TARGET = "-0123456789"


def _ordinal(n: int) -> str:
    return f"{n}{'th' if n in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def _month(day: date) -> str:
    return MONTHS[day.month - 1]


FORMATS: tuple[Callable[[date], str], ...] = (
    lambda d: f"{DAYS[d.weekday()]}, {_month(d)} {d.day}, {d.year}",
    lambda d: f"{_month(d)} {d.day}, {d.year}",
    lambda d: f"{_month(d)[:3]} {d.day}, {d.year}",
    lambda d: f"{d.day} {_month(d)} {d.year}",
    lambda d: f"{DAYS[d.weekday()][:3]} {d.day} {_month(d)[:3]} {d.year}",
    lambda d: f"the {_ordinal(d.day)} of {_month(d)}, {d.year}",
    lambda d: f"{_month(d)} {_ordinal(d.day)} {d.year}",
    lambda d: f"{d.day}.{d.month}.{d.year}",
    lambda d: f"{d.year}/{d.month}/{d.day}",
)


@dataclass(frozen=True, kw_only=True)
class Dates(Generated):
    """x is a date in one of nine formats, "tuesday, march 4, 1997"; y is the same date as "1997-03-04".

    No date is in two splits.

    Args:
        first: The first year.
        last: The last year.
        train_size, validation_size, test_size: Number of dates in each split.

    Example:
        >>> task = Dates(first=1997, last=1998, train_size=100, validation_size=10, test_size=10)
        >>> data, (source, target) = task.split("test", seed=0), task.symbols()
        >>> source.text(data.inputs[0][:, 0]), target.text(data.targets[0])
        ('1998/8/24', '1998-08-24')
    """

    first: int = 1900
    last: int = 2099

    name: ClassVar[str] = "dates"
    summary: ClassVar[str] = "write a date in one format, from a date in many: tuesday, march 4, 1997 is 1997-03-04"
    kind: ClassVar[Kind] = "translation"
    metric: ClassVar[Metric] = "wrong sequences"
    baseline_text: ClassVar[str] = "always the same date"
    solved: ClassVar[float | None] = 0.01
    embedding_size: ClassVar[tuple[int, ...]] = (32,)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("first", self.first, minimum=1000, maximum=9999)
        checks.integer("last", self.last, minimum=self.first, maximum=9999)
        wanted = sum(self.size(split) for split in SPLITS)
        if wanted > self._days():
            rule = f"be at most the number of days from {self.first} to {self.last}, {self._days()}, in total"
            checks.fail("train_size, validation_size, test_size", rule, wanted)

    def _days(self) -> int:
        return date(self.last, 12, 31).toordinal() - date(self.first, 1, 1).toordinal() + 1

    @property
    def input_size(self) -> int:
        return 1

    @property
    def output_size(self) -> int:
        return len(TARGET)

    def symbols(self) -> tuple[SymbolTable, SymbolTable]:
        """The characters that are read, and those that are written."""
        return SymbolTable(SOURCE, "", IGNORE), SymbolTable(TARGET, "", IGNORE)

    def signature(self) -> Signature:
        return Signature(
            kind=self.kind,
            input_size=1,
            output_size=len(TARGET),
            vocabularies=(tuple(SOURCE),),
            classes=tuple(TARGET),
            written=WrittenShape(depends="source", longest=20, separator="", source_separator=""),
        )

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        before = sum(self.size(other) for other in SPLITS[: SPLITS.index(split)])
        # One order of all days for all splits, so that no day is in two of them.
        order = np.random.default_rng([seed, len(SPLITS)]).permutation(self._days())
        days = [date.fromordinal(date(self.first, 1, 1).toordinal() + int(n)) for n in order[before : before + size]]
        formats = rng.integers(0, len(FORMATS), size)
        source, target = self.symbols()
        texts = [FORMATS[n](day) for n, day in zip(formats, days, strict=True)]
        inputs = Ragged.of([source.ids(text)[:, None] for text in texts])
        return Data(inputs, Ragged.of([target.ids(day.isoformat()) for day in days]))

    def baseline(self, data: Data) -> float:
        """Each date occurs once in a split."""
        return 1 - 1 / len(data)

    def floor(self, data: Data) -> float:
        """0: a date determines the answer."""
        return 0.0
