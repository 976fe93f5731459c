"""The shape of a paper's table, as data: `reproductions/<paper>/<table>/table.toml`.

    caption = "Comparison of different RNNs on benchmark datasets"
    headings = ["Dataset", "Algorithm"]     # of the columns with names, at the left
    recipe = "{row}"                        # the recipe of a cell, below the table's folder
    facts = ["size_kb", "hours"]            # columns at the right; FACTS below has them all

    [[column]]
    id = ""
    label = "Accuracy (%)"

    [[row]]
    id = "har-2/fastrnn"
    labels = ["HAR-2", "FastRNN"]

The paper's numbers are in the recipes. For cells without a recipe they are in `cited` of the row, by column or fact.
A column whose id has a star stands for several recipes of one network, such as several widths. Several columns may have
the same id and show different numbers of the same results (`value`).

A table without any number of a paper is our own: it has no columns for the paper's numbers. Its claims can be in the
same file, as `[[claim]]` tables; see claims.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from autapse import checks, records
from autapse.reproduce.claims import Claim
from autapse.reproduce.recipe import Recipe, read_toml, recipes_below

FILE = "table.toml"
FACTS = {
    "units": "# units",
    "parameters": "# params",
    "size_kb": "Model size (KB)",
    "layer_size_kb": "Model size (KB)",  # of the recurrent layer alone
    "minutes": "Train time (min)",
    "hours": "Train time (hr)",
    "maps_per_step": "Nonlinear maps per step",  # on the shortest path through time
}
SHOW = ("both", "ours", "paper")


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of scores."""

    id: str
    label: str
    show: str = "both"
    """both: ours beside the paper's; ours: a column that the paper does not have; paper: only cited numbers."""
    value: str = "ours"
    """Which number of a result it has: ours, validation, parameters, or one of its other scores."""
    ours_format: str = ""
    """How it is written; by default as in the rest of the table."""


@dataclass(frozen=True, kw_only=True)
class Row:
    id: str
    labels: tuple[str, ...]
    cited: dict[str, float] = field(default_factory=dict)
    """Numbers of the paper without a recipe, by column or fact."""
    also: str = ""
    """Another recipe that trains the same: its results are shown while this row has none of its own."""
    extra: bool = False
    """Whether the paper does not have this row."""


@dataclass(frozen=True, kw_only=True)
class CitedOnly:
    """Rows that cannot be trained here, and why."""

    rows: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A last row with the mean of each column."""

    label: str
    cited: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """What table.toml has."""

    caption: str
    headings: tuple[str, ...]
    recipe: str
    column: tuple[Column, ...]
    row: tuple[Row, ...]
    facts: tuple[str, ...] = ()
    difference: bool = True
    """Whether a column has the difference between ours and the paper's."""
    floor: bool = False
    """Whether a column has the best score that is possible."""
    ours_format: str = ".2f"
    paper_format: str = ".2f"
    mean: Mean | None = None
    cited_only: tuple[CitedOnly, ...] = ()
    notes: tuple[str, ...] = ()
    claim: tuple[Claim, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout(TableShape):
    """The shape of a table, and the recipes that fill it."""

    id: str
    """Folder of the table: ernn/table3."""
    recipes: tuple[Recipe, ...]
    """All recipes in that folder."""

    @property
    def name(self) -> str:
        """As the paper names it: Table 3."""
        return self.recipes[0].about["table"]

    @cached_property
    def is_own(self) -> bool:
        """Whether no number of the table is from a paper."""
        return not any(recipe.paper for recipe in self.recipes) and not any(row.cited for row in self.row)

    @cached_property
    def cells(self) -> dict[tuple[str, str], Recipe]:
        """The recipes of the table by ids of row and column; a column with a star has several ids."""
        placed = {}
        for row in self.row:
            for column in self.column:
                pattern = self._pattern(column.id, row.id)
                for recipe in self.recipes:
                    place = pattern.fullmatch(self.below(recipe))
                    if place:
                        placed[row.id, place["column"]] = recipe
        return placed

    def below(self, recipe: Recipe) -> str:
        """The id of a recipe below the table's folder: har-2/fastrnn."""
        return recipe.id.removeprefix(f"{self.id}/")

    def variants(self, column: Column) -> list[str]:
        """The ids that a column stands for, the narrowest network first."""
        pattern = re.compile(_starred(column.id))
        names = {name for _, name in self.cells if pattern.fullmatch(name)}
        return sorted(names, key=lambda name: (self.width(name), name))

    def width(self, column: str) -> int:
        """Units of the network of a column."""
        return next(width_of(recipe) for (_, name), recipe in self.cells.items() if name == column)

    def reason(self, row: Row) -> str:
        """Why a row cannot be trained; empty if it can."""
        reasons = (one.reason for one in self.cited_only for name in one.rows if re.fullmatch(_starred(name), row.id))
        return next(reasons, "")

    def _pattern(self, column: str, row: str = "") -> re.Pattern[str]:
        parts = re.split(r"(\{column\}|\{row\})", self.recipe)
        fill = {"{column}": f"(?P<column>{_starred(column)})", "{row}": f"(?P<row>{re.escape(row) if row else '.+'})"}
        text = "".join(fill.get(part, re.escape(part)) for part in parts)
        return re.compile(text if "{column}" in parts else f"(?P<column>){text}")

    def with_all_recipes(self, source: Path) -> Layout:
        """The same with a row for each recipe that the file does not name, after the rows of the same data."""
        placed = {recipe.id for recipe in self.cells.values()}
        rows = {row.id: row for row in self.row}
        for recipe in self.recipes:
            if recipe.id not in placed:
                matches = (self._pattern(column.id).fullmatch(self.below(recipe)) for column in self.column)
                place = next(filter(None, matches), None)
                if place is None:
                    raise checks.InputError(f"{source} has no place for {recipe.id}. Add a row or a column.")
                labels = (*(recipe.about["column"] for _ in self.headings[1:]), recipe.about["row"])
                rows[place["row"]] = Row(id=place["row"], labels=labels, extra=not recipe.paper)
        order = {label: n for n, label in enumerate(dict.fromkeys(row.labels[0] for row in rows.values()))}
        return replace(self, row=tuple(sorted(rows.values(), key=lambda row: order[row.labels[0]])))


def width_of(recipe: Recipe) -> int:
    """Units of the first layer, both directions together; the size of the vectors of a memory network."""
    model = recipe.settings["model"]
    sizes = model["embedding_size"] if "hops" in model else model["hidden_size"]
    return int(sizes[0]) * (2 if model.get("bidirectional") else 1)


def read_layouts(root: Path, paper: str) -> list[Layout]:
    """The tables of one paper, sorted by folder."""
    return [read_layout(root, path.parent) for path in sorted((root / paper).glob(f"*/{FILE}"))]


def read_layout(root: Path, folder: Path) -> Layout:
    path = folder / FILE
    shape = records.read(TableShape, read_toml(path), path)
    name = folder.relative_to(root).as_posix()
    layout = Layout(**vars(shape), id=name, recipes=tuple(recipes_below(name, root)))
    for complaint in _complaints(layout):
        raise checks.InputError(f"{path}: {complaint}")
    return layout.with_all_recipes(path)


def _complaints(layout: Layout) -> Iterator[str]:
    known = {*(column.id for column in layout.column), *layout.facts}
    recipes = {row for row, _ in layout.cells}
    for column in layout.column:
        if column.show not in SHOW:
            yield f"show of column {column.id!r} must be one of {', '.join(SHOW)}; got {column.show!r}."
    for fact in layout.facts:
        if fact not in FACTS:
            yield f"facts must be among {', '.join(FACTS)}; got {fact!r}."
    for row in layout.row:
        if len(row.labels) != len(layout.headings):
            yield f"row {row.id!r} must have {len(layout.headings)} labels; got {len(row.labels)}."
        if not row.cited and row.id not in recipes:
            yield f"row {row.id!r} has no recipe and no cited numbers."
        for name in row.cited:
            if name not in known:
                yield f"cited of row {row.id!r} must name columns or facts; got {name!r}."


def _starred(text: str) -> str:
    return "[^/]*".join(map(re.escape, text.split("*")))
