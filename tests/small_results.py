"""Made-up results of recipes, for tests of the page."""

from __future__ import annotations

from typing import Any

from autapse.reproduce import find_recipe
from autapse.reproduce.cell import UNITS
from autapse.reproduce.result import Result


def result(recipe: str, ours: float | bool | None, **changes: Any) -> Result:
    """A result of a recipe that there is; `changes` are other values of its fields."""
    known = find_recipe(recipe)
    unit = next((name for name in UNITS if name in known.paper), "error")
    fields: dict[str, Any] = {
        "recipe": recipe,
        "command": f"autapse reproduce {recipe}",
        "commit": "0123456789ab",
        "unit": unit,
        "ours": ours,
        "paper": known.paper.get(unit),
        "difference": None,
        "held_out": None,
        "baseline": 0.5,
        "floor": None,
        "test": 0.1,
        "metric": "error rate",
        "validation": 0.1,
        "best_step": 80,
        "solved_step": None,
        "parameters": 1024,
        "steps": 100,
        "epochs": 10.0,
        "paper_epochs": 10.0,
        "seconds": 360.0,
        "budget": None,
        "ended": "to the end",
        "rescues": 0,
        "unsolved": 0,
        "seed": 0,
        "differences": (),
        "inferred": {},
        "settings": {"task": {}, "model": {}, "training": {}},
        "hardware": {},
        "software": {},
    }
    return Result(**fields | changes)


def by_recipe(*results: Result) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for one in results:
        found.setdefault(one.recipe, []).append(one)
    return found
