"""The differences between our runs and the paper's, in few lines: runs with the same differences share a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autapse.reproduce.result import Result
from autapse.reproduce.score import duration

UNLISTED = ("training.eval_every",)  # how often a run validates

Names = dict[str, tuple[str, str]]  # recipe: its column and its row in the table


def what_differs(
    names: Names,  # the recipes of a table, in its order
    results: dict[str, list[Result]],  # all results, of other tables too
    source: str = "paper",  # whose settings they differ from: the paper's, or the recipe's
) -> Iterator[str]:
    """One line for each set of recipes: "**HAR-2**: clip_norm: 1.0 (paper: none); epochs: 25 (paper: 300)."."""
    runs = {recipe: results[recipe] for recipe in names if recipe in results}
    by_text: dict[str, dict[str, None]] = {}
    for recipe, own in runs.items():
        for text in _settings(own, source):
            by_text.setdefault(text, {})[recipe] = None
    for text, recipes in _endings(runs, source):
        by_text[text] = recipes
    by_recipes: dict[tuple[str, ...], list[str]] = {}
    for text, members in by_text.items():
        by_recipes.setdefault(tuple(members), []).append(text)
    for group, together in sorted(by_recipes.items(), key=lambda pair: -len(pair[0])):
        yield f"**{_name(group, names, list(runs))}**: {'; '.join(together)}."
    if runs and not by_recipes and source == "paper":
        yield "No setting that the paper states was changed."


def _settings(results: list[Result], source: str) -> list[str]:
    """The changed settings of one recipe, all seeds together."""
    texts = []
    for result in results:
        for one in result.differences:
            if one.setting not in UNLISTED:
                _, _, name = one.setting.partition(".")
                reading = ", our choice" if one.setting in result.inferred else ""
                texts.append(f"{name}: {_value(one.here)} ({source}: {_value(one.paper)}{reading})")
    return list(dict.fromkeys(texts))


def _endings(runs: dict[str, list[Result]], source: str) -> Iterator[tuple[str, dict[str, None]]]:
    """Runs that stopped before their end."""
    late: dict[tuple[float | None, float | None], dict[str, list[float]]] = {}
    for recipe, results in runs.items():
        for result in results:
            if result.ended == "out of time":
                late.setdefault((result.budget, result.paper_epochs), {}).setdefault(recipe, []).append(result.epochs)
    for (budget, papers), epochs in late.items():
        limit = "" if budget is None else f" of {duration(budget)}"
        every = sorted(number for numbers in epochs.values() for number in numbers)
        span = " to ".join(dict.fromkeys(f"{number:.2g}" for number in (every[0], every[-1])))
        of = "" if papers is None else f" ({source}: {papers:.4g})"
        yield f"cut off by a time limit{limit}, after {span} epochs{of}", dict.fromkeys(epochs)
    diverged = dict.fromkeys(name for name, results in runs.items() if any(one.ended == "diverged" for one in results))
    if diverged:
        yield "diverged: the score is that of the best weights before", diverged


def _name(members: tuple[str, ...], names: Names, runs: list[str]) -> str:
    """A short name for a set of recipes: All, All but X, HAR-2 (RNN, GRU), DSA-19."""
    left_out = tuple(recipe for recipe in runs if recipe not in members)
    if not left_out and len(members) > 1:
        return "All"
    if len(members) == 1:
        column, row = names[members[0]]
        return row if len({names[recipe][0] for recipe in runs}) == 1 else f"{column} ({row})"
    choices = [_grouped(members, names, runs, by) for by in (0, 1)]
    choices += [f"All but {_grouped(left_out, names, runs, by)}" for by in (0, 1)]
    return min(choices, key=len)


def _grouped(members: tuple[str, ...], names: Names, runs: list[str], by: int) -> str:
    """Recipes grouped by column (0) or by row (1). A group without brackets is a complete column or row."""
    parts = []
    for group in dict.fromkeys(names[recipe][by] for recipe in members):
        inside = [names[recipe][1 - by] for recipe in members if names[recipe][by] == group]
        whole = len(inside) == sum(names[recipe][by] == group for recipe in runs)
        parts.append(group if whole else f"{group} ({', '.join(inside)})")
    return ("; " if any("(" in part for part in parts) else ", ").join(parts)


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    if isinstance(value, float):
        return f"{value:g}" if value != int(value) or abs(value) >= 1e6 else f"{value:.1f}"
    return f"`{value}`" if isinstance(value, str) and ("=" in value or "_" in value) else str(value)
