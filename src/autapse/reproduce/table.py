"""One table of a paper as Markdown: ours beside the paper's, in the paper's own shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autapse.reproduce.cell import TableCell, cell_of
from autapse.reproduce.differences import Names, what_differs
from autapse.reproduce.layout import FACTS, Column, Layout, width_of
from autapse.reproduce.result import Result, Results
from autapse.reproduce.score import NOT_RUN, score_of, solved
from autapse.results.page import markdown_table

BEST_TEST = "best test epoch (the papers' selection)"
CITED_ONLY = "cited only"
NOT_IN_PAPER = " (not in the paper)"
CITED_BY_PAPER = "†"
AT_MOST = "≤ "
BYTES = 4  # of a parameter
LAG = 20  # steps over which the length of paths is measured
SECONDS = {"minutes": 60.0, "hours": 3600.0}


@dataclass(frozen=True)
class Printed:
    """A column of the page."""

    heading: str
    cells: list[str]
    last: str = ""
    """What it has in the row of means."""


def render_table(layout: Layout, results: Results) -> str:
    """Heading, table, and below it what differs."""
    grid = [[cell_of(layout, row, column, results) for row in layout.row] for column in layout.column]
    columns = [*_labels(layout), *(_floor(layout, grid) if layout.floor else [])]
    for column, cells in zip(layout.column, grid, strict=True):
        columns += _scores(layout, column, cells)
    for fact in layout.facts:
        columns += _facts(layout, fact, list(zip(*grid, strict=True)))
    rows = list(zip(*(column.cells for column in columns), strict=True))
    rows += [tuple(column.last for column in columns)] if layout.mean else []
    table = markdown_table([column.heading for column in columns], rows)
    differences = what_differs(_names(layout), results, "recipe" if layout.is_own else "paper")
    lines = [*_reasons(grid[0]), *_legend(table), *layout.notes, *differences]
    heading = f"### {layout.name}: {layout.caption}\n\nRecipes: `autapse reproduce list {layout.id}`."
    notes = ["\n".join(f"- {line}" for line in lines)] if lines else []
    # Pages of the documentation include what is between the two marks.
    return "\n\n".join([heading, f"<!-- {layout.id} -->", table, *notes, f"<!-- end of {layout.id} -->"])


def _labels(layout: Layout) -> Iterator[Printed]:
    """The columns with names. In all but the last a name that repeats the one above is left out, as in the papers."""
    for n, heading in enumerate(layout.headings):
        names = [row.labels[n] for row in layout.row]
        if n < len(layout.headings) - 1:
            names = ["" if above == name else name for above, name in zip(["", *names[:-1]], names, strict=True)]
        else:
            names = [name + (NOT_IN_PAPER if row.extra else "") for name, row in zip(names, layout.row, strict=True)]
        yield Printed(heading, names, layout.mean.label if layout.mean and n == 0 else "")


def _floor(layout: Layout, grid: list[list[TableCell]]) -> Iterator[Printed]:
    shown = []
    for cells in zip(*grid, strict=True):
        every = [one.floor for cell in cells for results in cell.results.values() for one in results]
        floors = [floor for floor in every if floor is not None]
        ends = dict.fromkeys(format(end(floors), layout.ours_format) for end in (min, max)) if floors else [NOT_RUN]
        shown.append(" to ".join(ends))
    yield Printed("best possible", shown)


# Scores --------------------------------------------------------------------------------------------------------------


def _scores(layout: Layout, column: Column, cells: list[TableCell]) -> Iterator[Printed]:
    """What a column of the paper becomes: ours (of each width), the paper's, and the difference."""
    names = layout.variants(column)
    if column.show != "paper":
        for name in names:
            shown = [_ours(layout, cell, cell.results.get(name, [])) for cell in cells]
            wide = f", {layout.width(name)} wide" if len(names) > 1 else ""
            yield Printed(_ours_of(layout, column.label + wide), shown, _our_mean(layout, cells))
        if len(names) > 1:
            yield Printed(f"{column.label}, the width that validation chose", [_chosen(layout, cell) for cell in cells])
        yield from _best_test(layout, column, cells)
    if column.show == "ours" or layout.is_own:
        return
    heading = "paper" if column.show == "both" else f"{column.label}, {'paper' if names else 'cited'}"
    yield Printed(heading, [_paper(layout, cell) for cell in cells], _paper_mean(layout, column, cells))
    if column.show == "both" and layout.difference:
        yield Printed("difference", [_difference(layout, cell) for cell in cells])


def _ours_of(layout: Layout, heading: str) -> str:
    return heading if layout.is_own else f"{heading}, ours"


def _ours(layout: Layout, cell: TableCell, results: list[Result]) -> str:
    column = cell.column
    if results and results[0].unit == "solved" and column.value == "ours":
        return solved(results)
    score = score_of(results, lambda one: one.number(column.value))
    if score:
        return f"**{score.shown(column.ours_format or layout.ours_format)}**"
    if results:
        return "not finite"
    return CITED_ONLY if cell.reason else NOT_RUN if cell.recipes else ""


def _chosen(layout: Layout, cell: TableCell) -> str:
    return NOT_RUN if cell.chosen is None else f"{_ours(layout, cell, cell.ours)} ({layout.width(cell.chosen)})"


def _best_test(layout: Layout, column: Column, cells: list[TableCell]) -> Iterator[Printed]:
    scores = [score_of(cell.ours, lambda one: one.best_test) for cell in cells]
    if any(scores):
        shown = [score.shown(layout.ours_format) if score else "" for score in scores]
        yield Printed(BEST_TEST if len(layout.column) == 1 else f"{column.label}, {BEST_TEST}", shown)


def _paper(layout: Layout, cell: TableCell) -> str:
    if isinstance(cell.paper, bool):
        return "yes" if cell.paper else "no"
    cited = CITED_BY_PAPER if cell.recipe and cell.recipe.paper.get("cited") else ""
    return "" if cell.paper is None else format(cell.paper, layout.paper_format) + cited


def _difference(layout: Layout, cell: TableCell) -> str:
    if cell.paper is None or cell.score is None:
        return ""
    shown = format(cell.score.mean - cell.paper, f"+{layout.ours_format}")
    return shown if float(shown) else shown.replace("-", "+")


def _our_mean(layout: Layout, cells: list[TableCell]) -> str:
    """The mean of a column; how many rows it is of, if not of all."""
    means = [cell.score.mean for cell in cells if cell.score]
    part = "" if len(means) == len(cells) else f" ({len(means)} of {len(cells)} rows)"
    return f"**{format(sum(means) / len(means), layout.ours_format)}**{part}" if means else NOT_RUN


def _paper_mean(layout: Layout, column: Column, cells: list[TableCell]) -> str:
    if layout.mean and column.id in layout.mean.cited:
        return format(layout.mean.cited[column.id], layout.paper_format)
    return next((cell.recipe.about.get("mean", "") for cell in cells if cell.recipe), "")


# Facts ---------------------------------------------------------------------------------------------------------------


def _facts(layout: Layout, fact: str, rows: list[tuple[TableCell, ...]]) -> Iterator[Printed]:
    """Size or time, ours beside the paper's. What follows from the recipe is the same in both."""
    by_recipe = {"units": _units, "maps_per_step": _maps_per_step}
    if fact in by_recipe:
        yield Printed(FACTS[fact], [by_recipe[fact](cells[0]) for cells in rows])
        return
    yield Printed(_ours_of(layout, FACTS[fact]), [_our_fact(fact, cells) for cells in rows])
    if layout.is_own:
        return
    yield Printed("paper", [_paper_fact(fact, cells[0]) for cells in rows])


def _units(cell: TableCell) -> str:
    if "units" in cell.row.cited:
        return f"{cell.row.cited['units']:g}"
    return str(width_of(cell.recipe)) if cell.recipe else ""


def _maps_per_step(cell: TableCell) -> str:
    """How many nonlinear maps each step of a long lag adds to the shortest path."""
    from autapse.diagnostics import shortest_path

    if cell.recipe is None:
        return ""
    maps = shortest_path(_layer_of(cell.recipe.settings["model"]), lag=LAG).per_step
    return "no path" if maps is None else f"{maps:g}"


def _our_fact(fact: str, cells: tuple[TableCell, ...]) -> str:
    """The fact of the first cell of a row that was run, and for which the paper has the fact too."""
    for cell in cells:
        if cell.recipe and cell.ours and (_key(fact) in cell.recipe.paper or not cell.recipe.paper):
            return _measured(fact, cell.ours)
    return "" if cells[0].reason else NOT_RUN


def _measured(fact: str, results: list[Result]) -> str:
    first = results[0]
    if fact == "parameters":
        return _thousands(first.parameters)
    if fact == "size_kb":
        return f"{first.parameters * BYTES / 1024:.0f}"
    if fact == "layer_size_kb":
        return f"{layer_parameters(first) * BYTES / 1024:.0f}"
    time = score_of(results, lambda one: one.quiet_seconds)
    if time is None:  # other programs ran beside it, or the result was made before this time was kept
        return f"{AT_MOST}{min(one.best_seconds or one.seconds for one in results) / SECONDS[fact]:.2g}"
    return f"{time.mean / SECONDS[fact]:.2g}"


def layer_parameters(result: Result) -> int:
    """Parameters of the recurrent layer alone, without word vectors and head."""
    return sum(parameter.numel() for parameter in _layer_of(result.settings["model"], "meta").parameters())


def _layer_of(model: dict[str, Any], device: str = "cpu") -> Any:
    """The recurrent layer of a model; without word vectors, its input is as wide as its first layer."""
    from autapse.layers.registry import make_layer

    inputs = (model.get("embedding_size") or model["hidden_size"])[0]
    options = {"num_layers": model.get("num_layers") or 1, "bidirectional": model.get("bidirectional", False)}
    return make_layer(model["cell"], inputs, model["hidden_size"][0], **options, device=device)


def _paper_fact(fact: str, cell: TableCell) -> str:
    number = cell.row.cited.get(fact, cell.recipe.paper.get(_key(fact)) if cell.recipe else None)
    if number is None:
        return ""
    return _thousands(number) if fact == "parameters" else f"{number:g}"


def _key(fact: str) -> str:
    """The name of a fact in recipes: what a size counts is up to the paper."""
    return fact.removeprefix("layer_")


def _thousands(number: float) -> str:
    return f"{number / 1000:.3g}k"


# Below the table -----------------------------------------------------------------------------------------------------


def _reasons(cells: list[TableCell]) -> Iterator[str]:
    """Why some rows are cited only."""
    rows: dict[str, dict[str, None]] = {}
    for cell in cells:
        if cell.reason and not cell.ours:
            rows.setdefault(cell.reason, {})[cell.row.labels[0]] = None
    for reason, names in rows.items():
        yield f"Cited only: {', '.join(names)}: {reason}"


def _legend(table: str) -> Iterator[str]:
    if CITED_BY_PAPER in table:
        yield f"{CITED_BY_PAPER} The paper cites this number from elsewhere."
    if AT_MOST in table:
        yield f"{AT_MOST.strip()} The time to the best model was not recorded; this is the time of the whole training."


def _names(layout: Layout) -> Names:
    """The column and the row of each recipe; its width too, where a column has several."""
    names = {}
    for column in layout.column:
        variants = layout.variants(column)
        for (_, name), recipe in layout.cells.items():
            if name in variants:
                wide = f", {layout.width(name)} wide" if len(variants) > 1 else ""
                names[recipe.id] = (recipe.about["column"] + wide, recipe.about["row"])
    return names
