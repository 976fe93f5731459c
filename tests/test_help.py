"""`help(...)` explains every argument of the public names of training, models and plots."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from typing import Any

import pytest

from autapse import models, training
from autapse.diagnostics import plots

PUBLIC = [
    *(getattr(training, name) for name in training.__all__),
    *(getattr(models, name) for name in models.__all__ if name != "MODELS"),
    plots.Panel,
    plots.draw_svg,
    plots.plot_curves,
]


def arguments(thing: Any) -> list[str]:
    names = [name for name in inspect.signature(thing).parameters if name not in ("args", "settings")]
    # SequenceModel is not for direct use; what its subclasses take is in their own help.
    return [] if thing is models.SequenceModel else names


def explained_fields(kind: type) -> set[str]:
    """Fields of a dataclass or named tuple with a text below them or a comment beside them, in all base classes."""
    names = set()
    for base in kind.__mro__:
        if not (dataclasses.is_dataclass(base) or hasattr(base, "_fields")) or base is tuple:
            continue
        source = inspect.getsource(base)
        (body,) = (node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                below = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                beside = "  # " in source.splitlines()[node.end_lineno - 1]  # type: ignore[operator]
                names |= {node.target.id} if below or beside else set()
    return names


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_every_argument_is_explained(thing: Any) -> None:
    text = inspect.getdoc(thing) or ""
    assert len(text.split()) >= 5
    known = set(re.findall(r"\w+", text))
    if isinstance(thing, type) and (dataclasses.is_dataclass(thing) or hasattr(thing, "_fields")):
        known |= explained_fields(thing)
    assert [name for name in arguments(thing) if name not in known] == []


@pytest.mark.parametrize(
    "thing", [thing for thing in PUBLIC if inspect.isfunction(thing)], ids=lambda thing: thing.__name__
)
def test_every_function_says_what_it_returns(thing: Any) -> None:
    if inspect.signature(thing).return_annotation not in (None, "None"):
        assert "Returns:" in (inspect.getdoc(thing) or "")
