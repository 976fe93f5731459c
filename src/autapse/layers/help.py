"""The help of a layer, composed from the docstrings of its cell, its strategy and `Recurrent`."""

from __future__ import annotations

import inspect
from typing import TypeVar

from autapse.cells import Cell
from autapse.cells.base import cell_options
from autapse.docstrings import arguments, examples, prose, section
from autapse.unfold import strategy_class

Class = TypeVar("Class", bound=type)


def layer_help(layer: type, cell: type[Cell], base: type) -> str:
    """The equation and the text of the cell, all arguments, what a call takes and returns, and an example."""
    own = cell_options(cell)  # an option of a cell may have the name of an argument of `Recurrent`
    common = [name for name in inspect.signature(layer).parameters if name not in own]
    texts = arguments(common, base.__doc__, strategy_class(cell).__doc__)
    texts += arguments(own, cell.__doc__).removeprefix("Args:")
    as_cell, as_layer = f"autapse.Recurrent(autapse.cells.{cell.__name__}, ", f"autapse.{layer.__name__}("
    ours = layer.__module__.startswith("autapse.")
    shown = [examples(cell.__doc__).replace(as_cell, as_layer)] if ours else []
    return "\n\n".join([prose(cell.__doc__), texts, *_call(base), *shown])


def explain_call(layer: Class) -> Class:
    """Class decorator: adds what a call takes and returns to the docstring of a layer, before its example."""
    text, mark, shown = inspect.cleandoc(layer.__doc__ or "").partition(">>> ")
    layer.__doc__ = "\n\n".join([text.rstrip(), *_call(layer.__bases__[0]), mark + shown])
    return layer


def _call(base: type) -> list[str]:
    return [f"{title}:\n{section(base.__doc__, title)}" for title in ("Called with", "Returns")]
