"""`help(...)` explains every argument of the public names, what a function returns, and shows an example that runs."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from enum import Enum
from types import ModuleType
from typing import Any

import pytest

import autapse
from autapse import auto, cells, diagnostics, gradient, layers, models, readouts, sklearn, solve, training, unfold
from autapse.cells.base import constructor_arguments
from autapse.diagnostics import plots
from autapse.diagnostics.contraction import contraction

BASE = "a base class: its subclasses explain their arguments and have examples"
NOT_EXPLAINED = {
    models.SequenceModel: BASE,
    layers.Layer: BASE,
    readouts.LinearReadout: BASE,
    cells.FormCell: "a base class with the arguments of Cell",
    gradient.Solved: "a protocol",
    solve.NotConvergedWarning: "only the library makes it",
    unfold.scan_fused: "for tests and benchmarks: comments in the signature explain the arguments",
    unfold.scan_reference: "for tests and benchmarks: comments in the signature explain the arguments",
}
NO_EXAMPLE = {
    models.SequenceModel: BASE,
    sklearn.RecurrentEstimator: BASE,
    layers.Layer: BASE,
    readouts.LinearReadout: BASE,
    cells.FormCell: "a base class: docs/extending.md has an example",
    gradient.Gradient: BASE,
    gradient.Solved: "a protocol",
    unfold.Unfold: BASE,
    unfold.Unfolded: "the result of a strategy",
    unfold.scan_fused: "for tests and benchmarks",
    unfold.scan_reference: "for tests and benchmarks",
    auto.Choice: "`choose` returns it and has an example",
    auto.Look: "`look` returns it and has an example",
    training.Diverged: "only training raises it",
    training.Interrupted: "only training raises it",
    training.Fitted: "`fit` returns it and has an example",
    training.Loop: "`fit` uses it and has an example",
    training.Objective: "`objective` returns it and has an example",
    training.Summary: "`train` returns it and has an example",
    training.Trainer: "`train` uses it and has an example",
    training.find_run: "needs a run folder, as `load`",
    training.load_run: "needs a run folder, as `load`",
    training.ForecastErrors: "`forecast_errors` returns it and has an example",
    training.ForecastReport: "`forecast_report` returns it and has an example",
    diagnostics.MemoryTrace: "`memory_trace` returns it and has an example",
}


def public(room: ModuleType) -> list[Any]:
    values = [getattr(room, name) for name in room.__all__]
    return [value for value in values if isinstance(value, type) or inspect.isfunction(value)]


ROOMS = (
    *(training, auto, sklearn, models, diagnostics, autapse, layers, readouts, cells, gradient, unfold, solve),
    autapse.native,
)
PUBLIC = list(dict.fromkeys([*(thing for room in ROOMS for thing in public(room)), contraction, *public(plots)]))


def name_of(thing: Any) -> str:
    return f"{thing.__module__.partition('.')[2]}.{thing.__qualname__}"


def arguments(thing: Any) -> list[str]:
    if thing in NOT_EXPLAINED or issubclass(thing if isinstance(thing, type) else object, Enum):
        return []
    if isinstance(thing, type) and issubclass(thing, cells.Cell):
        return ["input_size", "hidden_size", *constructor_arguments(thing)]  # those of its base classes too
    passed_on = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(thing).parameters.values()
    # *args and **keywords hand arguments to a base class, whose names are checked where they are in a signature.
    return [p.name for p in parameters if p.kind not in passed_on or p.name in ("options", "stages", "operands")]


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


@pytest.mark.parametrize("thing", PUBLIC, ids=name_of)
def test_every_argument_is_explained(thing: Any) -> None:
    text = thing.__doc__ or ""
    assert len(text.split()) >= 5
    # An argument is explained by an entry, `name: text`, or as `name` in the text.
    known = set(re.findall(r"(?m)^\s+(\w+): \S", text)) | set(re.findall(r"`(\w+)`", text))
    help_names_fields = any(thing in public(room) for room in (gradient, unfold, solve))
    if isinstance(thing, type) and (dataclasses.is_dataclass(thing) or hasattr(thing, "_fields")):
        known |= set() if help_names_fields else explained_fields(thing)
    assert [name for name in arguments(thing) if name not in known] == []


# A probe returns these, and has an example.
NO_EXAMPLE |= {thing: "a probe returns it" for thing in public(diagnostics) if isinstance(thing, type)}
NO_EXAMPLE |= dict.fromkeys(public(plots), "needs matplotlib, which is optional")


FUNCTIONS = [thing for thing in PUBLIC if inspect.isfunction(thing) and thing not in NOT_EXPLAINED]


@pytest.mark.parametrize("thing", FUNCTIONS, ids=name_of)
def test_every_function_says_what_it_returns(thing: Any) -> None:
    if inspect.signature(thing).return_annotation not in (None, "None"):
        assert "Returns:" in (thing.__doc__ or "")


@pytest.mark.parametrize("thing", [thing for thing in PUBLIC if thing not in NO_EXAMPLE], ids=name_of)
def test_every_public_name_has_an_example(thing: Any) -> None:
    assert re.search(r"(?m)^\s*>>> ", thing.__doc__ or "")


LAYERS = [thing for thing in PUBLIC if isinstance(thing, type) and issubclass(thing, layers.Recurrent)]
LAYERS.remove(layers.Layer)  # not for direct use


@pytest.mark.parametrize("layer", LAYERS, ids=name_of)
def test_a_layer_explains_a_call(layer: type[layers.Recurrent]) -> None:
    """help(layer) begins with the equation and says what a call takes and returns."""
    text = layer.__doc__ or ""
    call = list(inspect.signature(layers.Recurrent.forward).parameters)[1:]
    assert [name for name in call if not re.search(rf"(?m)^\s+{name}: \S", text)] == []
    assert "Returns:" in text
    assert text.count("Args:") == 1
    if issubclass(layer, layers.Layer):
        assert text.splitlines()[0] == (layer.cell_type.__doc__ or "").splitlines()[0]
