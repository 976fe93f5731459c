"""Settings chosen by the data: a look at it, a recipe, and a search by cross-validation. Imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse.auto.choice import Choice, choose
    from autapse.auto.overview import Look, look
    from autapse.auto.recipes import recipe

__all__ = ["Choice", "Look", "choose", "look", "recipe"]

__getattr__ = lazy(
    __name__,
    {
        "autapse.auto.choice": "Choice choose",
        "autapse.auto.overview": "Look look",
        "autapse.auto.recipes": "recipe",
    },
)
