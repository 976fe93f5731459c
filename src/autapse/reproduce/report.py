"""All results against the papers' tables, as one page."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from autapse import checks, files
from autapse.benchmark.page import fill_between, markdown_table
from autapse.reproduce.recipe import Recipe, all_recipes

START, END = "<!-- results -->", "<!-- end of results -->"
INTRODUCTION = f"""# The papers' tables, trained again

One line per cell of a table that was run. *Ours* is the test score of the weights that validated best, or of the refit
on all training data where the paper's protocol has one; *held out* is then the score before the refit. *Epochs* are
ours, and the paper's. *Time* is what training took on this machine, of the budget that it had. A run that ended "out of
time" was cut off: its number says what that much time gives, not what the network can reach.

{START}

{END}
"""
NAMES = {"accuracy": "accuracy, %", "error": "error", "perplexity": "perplexity", "solved": "solved"}


def read_results(*roots: Path) -> dict[str, list[dict[str, Any]]]:
    """The results under some folders by recipe, those of several seeds together; later folders win."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for root in roots:
        for path in sorted(root.glob("*/results/*/**/*.json")):
            result = files.read_json(path)
            if not isinstance(result, dict) or "recipe" not in result:
                raise checks.InputError(f"{path} is no result of `autapse reproduce`.")
            found[result["recipe"], result["seed"]] = result
    by_recipe: dict[str, list[dict[str, Any]]] = {}
    for (name, _), result in sorted(found.items()):
        by_recipe.setdefault(name, []).append(result)
    return by_recipe


def render(results: dict[str, list[dict[str, Any]]], recipes: list[Recipe] | None = None) -> str:
    """The page's tables: papers and their tables in order, then what was not run."""
    recipes = all_recipes() if recipes is None else recipes
    known = {recipe.id for recipe in recipes}
    for name in results:
        checks.one_of("recipe of a result", name, known)
    parts = []
    for (paper, table), cells in groupby(recipes, key=lambda recipe: tuple(recipe.id.split("/")[:2])):
        parts.append(_table(paper, table, list(cells), results))
    return "\n\n".join(part for part in parts if part)


def write_page(path: Path, text: str) -> None:
    """Put the tables into a page, which is begun if there is none."""
    page = path.read_text(encoding="utf-8") if path.exists() else INTRODUCTION
    try:
        filled = fill_between(page, START, END, text)
    except ValueError as error:
        raise checks.InputError(f"{path}: {error}") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, filled.encode())


def _table(paper: str, table: str, cells: list[Recipe], results: dict[str, list[dict[str, Any]]]) -> str:
    run = [(cell, result) for cell in cells for result in results.get(cell.id, [])]
    about = cells[0].about
    heading = f"## {paper}: {about.get('table', table)}\n\n*{about.get('title', paper)}*"
    left = [cell.id.split("/", 2)[2] for cell in cells if cell.id not in results]
    parts = [heading]
    if run:
        parts.append(markdown_table(_headings(run), [_row(cell, result, run) for cell, result in run]))
        parts += [*_means(cells, results), _settings(run)]
    if left:
        parts.append(f"Not run ({len(left)} of {len(cells)}): {', '.join(left)}.")
    return "\n\n".join(parts)


def _means(cells: list[Recipe], results: dict[str, list[dict[str, Any]]]) -> list[str]:
    """A line for each column whose mean the paper gives, over its cells that were run."""
    lines = []
    for column, members in groupby(cells, key=lambda cell: cell.about.get("column", "")):
        own = list(members)
        first = [(cell, results[cell.id][0]) for cell in own if cell.id in results]
        known = [(r["ours"], cell.paper.get(r["unit"])) for cell, r in first]
        known = [pair for pair in known if None not in pair]
        if "mean" in own[0].about and known:
            ours, theirs = (sum(values) / len(values) for values in zip(*known, strict=True))
            what = f"{column}, mean over {len(known)} of {len(own)} rows: ours {ours:.4g}"
            lines.append(f"{what}; the paper's over the same {theirs:.4g}, over all {own[0].about['mean']}.")
    return ["\n".join(f"- {line}" for line in lines)] if lines else []


def _headings(run: list[tuple[Recipe, dict[str, Any]]]) -> list[str]:
    refit = any(result["held_out"] is not None for _, result in run)
    solved = any(result["unit"] == "solved" for _, result in run)
    floor = any(result["floor"] for _, result in run)
    unit = NAMES[run[0][1]["unit"]]
    return [
        *("column", "row", f"ours ({unit})"),
        *(["held out"] if refit else []),
        *("the paper's", "difference"),
        *(["best possible"] if floor else []),
        *(["steps to solve", "test error"] if solved else []),
        *("parameters", "epochs, of the paper's", "time, of the budget", "ended"),
    ]


def _row(cell: Recipe, result: dict[str, Any], run: list[tuple[Recipe, dict[str, Any]]]) -> list[str]:
    headings = _headings(run)
    budget = result["budget"]
    values = {
        "column": cell.about.get("column", cell.id.split("/")[2]),
        "row": cell.about.get("row", cell.id.split("/")[-1]) + (f" (seed {result['seed']})" if result["seed"] else ""),
        headings[2]: f"**{_shown(result['ours'])}**",
        "held out": _shown(result["held_out"]),
        "the paper's": _shown(result["paper"]) + (" (cited)" if cell.paper.get("cited") else ""),
        "difference": "" if result["difference"] is None else f"{result['difference']:+.4g}",
        "best possible": _best_possible(result),
        "steps to solve": _steps_to_solve(result),
        "test error": _shown(result["test"]),
        "parameters": f"{result['parameters']:,}",
        "epochs, of the paper's": f"{result['epochs']:.3g}" + _papers_length(result),
        "time, of the budget": duration(result["seconds"]) + ("" if budget is None else f" of {duration(budget)}"),
        "ended": result["ended"],
    }
    return [values[heading] for heading in headings]


def _papers_length(result: dict[str, Any]) -> str:
    epochs, inferred = result["paper_epochs"], result["inferred"].keys() & {"training.epochs", "training.steps"}
    return "" if epochs is None else f" of {epochs:.4g}" + (" (inferred)" if inferred else "")


def _steps_to_solve(result: dict[str, Any]) -> str:
    """The first validation below the task's limit; where the test score alone is below it, the step it is of."""
    if not result["ours"]:
        return "–"
    step = result["best_step"] if result["solved_step"] is None else result["solved_step"]
    return f"{step:,}"


def _best_possible(result: dict[str, Any]) -> str:
    floor = result["floor"]
    return _shown(100 * (1 - floor) if floor is not None and result["unit"] == "accuracy" else floor)


def _settings(run: list[tuple[Recipe, dict[str, Any]]]) -> str:
    """Which settings are not the paper's, cells with the same ones together."""
    grouped: dict[str, list[str]] = {}
    for cell, result in run:
        lines = [f"`{d['setting']}` {_setting(d['here'])} for {_setting(d['paper'])}" for d in result["differences"]]
        grouped.setdefault(", ".join(lines) or "none", []).append(cell.id.split("/", 2)[2])
    listed = [f"- {', '.join(names)}: {lines}." for lines, names in grouped.items()]
    return "\n".join(["Settings that are not the paper's:", "", *listed])


def _setting(value: Any) -> str:
    return "no" if value is None else str(value)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """12 s, 9.5 min, 1.2 h.

    >>> duration(30), duration(570), duration(7200)
    ('30 s', '9.5 min', '2 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
