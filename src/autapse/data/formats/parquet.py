"""Tables in .parquet files, if pyarrow is installed."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from autapse import checks
from autapse.data.formats.decimals import ALLOW
from autapse.data.formats.delimited import HEAD, LARGEST, Column, Reading, Texts
from autapse.data.formats.times import TimeError, dates
from autapse.data.reading import read_bytes


@dataclass(frozen=True)
class Parquet:
    """A table in a .parquet file, with the same methods as a table in text."""

    path: Path
    table: Any  # pyarrow.Table
    header: list[str]

    @classmethod
    def open(cls, path: Path) -> Parquet:
        content = read_bytes(path)
        try:
            import pyarrow
            from pyarrow import parquet
        except ModuleNotFoundError:
            remedy = "pip install pyarrow, or write the table as .csv"
            raise checks.InputError(f"Reading {path} needs pyarrow: {remedy}.") from None
        try:
            table = parquet.read_table(io.BytesIO(content))
        except (pyarrow.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise checks.InputError(f"{path} is not a complete .parquet file ({reason}).") from None
        header = [str(name) for name in table.column_names]
        if not len(table) or len(set(header)) < len(header):
            raise checks.InputError(f"{path} must have rows, and columns with different names.")
        return cls(path, table, header)

    def head(self, name: str) -> list[str]:
        column = self.table.column(self.header.index(name))[:HEAD]
        return ["" if cell is None else str(cell) for cell in column.to_pylist()]

    def read(
        self, columns: Mapping[str, Reading], values: Sequence[str] = (), missing: bool = True
    ) -> tuple[dict[str, Column], np.ndarray]:
        made: dict[str, Column] = {}
        for name, way in columns.items():
            if way == "texts":
                made[name] = self._texts(name)
            else:
                made[name] = self._times(name) if way == "times" else self._numbers(name)
        matrix = [self._numbers(name, missing).astype(np.float32) for name in values]
        return made, np.stack(matrix, axis=1) if matrix else np.zeros((len(self.table), 0), dtype=np.float32)

    def line(self, row: int) -> int:
        return row + 1

    def fail(self, row: int, column: str, reason: str) -> NoReturn:
        raise checks.InputError(f"{self.path}, row {row + 1}, column {column!r}: {reason}.")

    def _column(self, name: str) -> Any:
        return self.table.column(self.header.index(name)).combine_chunks()

    def _numbers(self, name: str, missing: bool = False) -> np.ndarray:  # [rows] float64
        import pyarrow as pa

        column = self._column(name)
        if not (
            pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
        ):
            remedy = "To use only some columns, name them with --channels"
            self.fail(0, name, f"it has the type {column.type}, not numbers. {remedy}")
        values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
        bad = ~(np.abs(values) <= LARGEST)
        if missing:
            bad &= ~np.isnan(values)
        if bad.any():
            row = int(bad.argmax())
            gap = np.isnan(values[row])
            reason = "the value is missing" if gap else f"{values[row]:g} is not a finite number"
            remedy = f". {ALLOW}" if gap else ""
            self.fail(row, name, reason + remedy)
        return values

    def _texts(self, name: str) -> Texts:
        cells = [None if cell is None else str(cell) for cell in self._column(name).to_pylist()]
        if None in cells or "" in cells:
            self.fail(next(row for row, cell in enumerate(cells) if not cell), name, "the cell is empty")
        known: dict[str, int] = {}
        codes = [known.setdefault(str(cell), len(known)) for cell in cells]
        return Texts(np.array(codes, dtype=np.int64), list(known))

    def _times(self, name: str) -> np.ndarray:  # [rows] float64
        import pyarrow as pa

        column = self._column(name)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            stamps = column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
            if np.isnat(stamps).any():
                self.fail(int(np.isnat(stamps).argmax()), name, "the cell is empty")
            return np.asarray(stamps.astype(np.int64) / 1e6, dtype=np.float64)
        if not pa.types.is_string(column.type):
            return self._numbers(name)
        cells = [cell or "" for cell in column.to_pylist()]
        try:
            return dates(cells)
        except TimeError as error:
            self.fail(error.row, name, f"{cells[error.row]!r} is not a date or a time{error.hint}")
