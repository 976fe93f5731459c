"""The papers' experiments as recipes: what each table's cell trains, what the paper found, and what it leaves open."""

from autapse.reproduce.recipe import (
    Difference,
    Recipe,
    all_recipes,
    find_recipe,
    read_recipe,
    recipes_below,
    recipes_root,
)

__all__ = ["Difference", "Recipe", "all_recipes", "find_recipe", "read_recipe", "recipes_below", "recipes_root"]
