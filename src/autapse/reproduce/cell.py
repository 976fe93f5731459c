"""One cell of a paper's table, with our results."""

from __future__ import annotations

from dataclasses import dataclass

from autapse.reproduce.layout import Column, Layout, Row
from autapse.reproduce.recipe import Recipe
from autapse.reproduce.result import Result, Results
from autapse.reproduce.score import Score, chosen, score_of

UNITS = ("accuracy", "error", "perplexity", "solved")


@dataclass(frozen=True)
class TableCell:
    """A row in a column. It has one recipe, or one for each width of its network, or no recipe."""

    row: Row
    column: Column
    recipes: dict[str, Recipe]
    results: Results
    """Results by the same names as the recipes."""
    reason: str
    """Why it cannot be trained; empty if it can."""

    @property
    def recipe(self) -> Recipe | None:
        """A recipe that has the paper's number, if there is one: the number is the same for all widths."""
        return next((one for one in self.recipes.values() if one.paper), next(iter(self.recipes.values()), None))

    @property
    def chosen(self) -> str | None:
        """The width that validation chose; None if none was run."""
        return chosen(self.results)

    @property
    def ours(self) -> list[Result]:
        return [] if self.chosen is None else self.results[self.chosen]

    @property
    def score(self) -> Score | None:
        return score_of(self.ours)

    @property
    def paper(self) -> bool | float | None:
        """The paper's number, in its own unit."""
        if self.column.id in self.row.cited:
            return self.row.cited[self.column.id]
        return None if self.recipe is None else paper_number(self.recipe)


def paper_number(recipe: Recipe) -> bool | float | None:
    """What the paper found, in its own unit; None if the paper has no such cell."""
    return next((recipe.paper[unit] for unit in UNITS if unit in recipe.paper), None)


def cell_of(layout: Layout, row: Row, column: Column, results: Results) -> TableCell:
    """A cell with its results, or with those of another recipe that trains the same."""
    recipes = {name: layout.cells[row.id, name] for name in layout.variants(column) if (row.id, name) in layout.cells}
    own = {name: results.get(recipe.id) or results.get(row.also, []) for name, recipe in recipes.items()}
    return TableCell(row, column, recipes, own, layout.reason(row))
