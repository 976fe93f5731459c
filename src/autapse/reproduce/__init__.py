"""The papers' experiments as recipes: what each cell of a table trains, what the paper found, what it leaves open."""

from autapse.reproduce.recipe import (
    Difference,
    Recipe,
    all_recipes,
    find_recipe,
    has_recipes,
    read_recipe,
    recipes_below,
    recipes_root,
)

__all__ = [
    "Difference",
    "Recipe",
    "all_recipes",
    "find_recipe",
    "has_recipes",
    "read_recipe",
    "recipes_below",
    "recipes_root",
]
