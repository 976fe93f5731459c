"""Recipes with all settings that occur are trained for a few steps, on small files in the upstream formats."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from autapse.reproduce import Recipe, all_recipes
from autapse.reproduce.paper import read_papers
from autapse.reproduce.run import Plan, reproduce
from autapse.reproduce.table import render_table
from autapse.tasks.base import Generated
from autapse.training.config import RunConfig
from autapse.training.log import Quiet
from small_data import data_in, write_all

ROOT = Path(__file__).parents[2] / "reproductions"
RECIPES = all_recipes(ROOT)
TABLES = {recipe.id: layout for paper in read_papers(ROOT) for layout in paper.layouts for recipe in layout.recipes}
# With a budget, one recipe of each folder that changes something for it.
SHORT = list({recipe.path.parent: recipe for recipe in RECIPES if recipe.budget}.values())
SMALL = {"train_size": 48, "validation_size": 16, "test_size": 16}
LONGEST = 40  # steps of a sequence that is made on the spot; the files have their own


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("data")
    write_all(folder)
    with data_in(folder):
        yield folder


def overrides(recipe: Recipe) -> dict[str, object]:
    """A few steps of the recipe as it is, of small batches where the data are many."""
    task = recipe.settings["task"]
    changes: dict[str, object] = {"training.steps": 2, "training.eval_every": 2, "training.batch_size": 8}
    if isinstance(recipe.config().task, Generated):
        changes |= {f"task.{name}": size for name, size in SMALL.items()}
        changes |= {f"task.{name}": LONGEST for name in ("length", "score_length") if name in task}
    if task["name"] == "noisy-cifar10":
        changes["task.length"] = LONGEST
    return changes


def quiet(config: RunConfig) -> nullcontext[Quiet]:
    return nullcontext(Quiet())


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("recipe", SHORT, ids=[recipe.id for recipe in SHORT])
def test_what_a_budget_changes_trains_too(recipe: Recipe, tmp_path: Path):
    plan = Plan.of(recipe, 600.0, 0, overrides(recipe))
    result = reproduce(plan, tmp_path / "run", "the smoke test", quiet)
    assert result.test is not None
    assert math.isfinite(result.test)
    assert result.budget == 600


def tables(recipe: Recipe) -> set[str]:
    """Its tables of settings. The length of sequences does not count: it is the same for all of them here."""
    names = ("task", "model", "training", "protocol")
    return {f"{name} {recipe.settings[name] | {'length': None}}" for name in names}


def covering(recipes: Iterable[Recipe]) -> Iterator[Recipe]:
    """Recipes in which every table of settings occurs at least once. Another test makes a run of each recipe."""
    seen = set[str]()
    for recipe in recipes:
        if tables(recipe) - seen:
            yield recipe
        seen |= tables(recipe)


CHOSEN = list(covering(RECIPES))


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("recipe", CHOSEN, ids=[recipe.id for recipe in CHOSEN])
def test_recipes_train(recipe: Recipe, tmp_path: Path):
    plan = Plan.of(recipe, None, 0, overrides(recipe))
    result = reproduce(plan, tmp_path / "run", "the smoke test", quiet)
    assert result.recipe == recipe.id
    solved = recipe.config().model.cell.startswith(("reservoir", "liquid"))  # in one pass, without a training step
    assert solved == (result.steps == 0)
    papers = recipe.config().training.epochs  # two steps are fewer than the paper's, but may be as many epochs
    shorter = not solved and (papers is None or result.epochs < papers)
    assert result.ended == ("to the end of a shorter training" if shorter else "to the end")
    page = render_table(TABLES[recipe.id], {recipe.id: [result]})
    assert re.search(r"batch_size: 8 \((paper|recipe): ", page)  # a table of our own has no paper's settings
    assert result.test is not None
    assert math.isfinite(result.test)
    assert (result.held_out is not None) == plan.refit
    named = {difference.setting for difference in result.differences}
    assert {"training.steps", "training.batch_size"} <= named
    assert set(overrides(recipe)) >= named - {"training.epochs"}
