"""Frozen dataclasses from JSON and TOML, with every key and every type checked."""

from __future__ import annotations

import dataclasses
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from autapse import checks

T = TypeVar("T")
NAMES = {str: "text", bool: "true or false", int: "an integer", float: "a number", dict: "a table", tuple: "a list"}


def from_content(
    kind: type[T],  # its fields name the keys, its annotations their types; a field without a default is needed
    content: object,  # what a JSON or TOML file holds
    source: str | Path,  # where that comes from; error messages begin with it
) -> T:
    """An instance of the dataclass `kind`.

    >>> from autapse.reproduce.recipe import Difference
    >>> from_content(Difference, {"setting": "training.epochs", "paper": 300, "here": 25}, "my.json")
    Traceback (most recent call last):
        ...
    autapse.checks.InputError: my.json lacks: reason.
    """
    if not isinstance(content, dict):
        checks.fail(str(source), "be a table of keys and values", content)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    for name in content:
        checks.one_of(f"{source}: key", name, [field.name for field in fields])
    missing = [field.name for field in fields if field.name not in content and _needed(field)]
    if missing:
        raise checks.InputError(f"{source} lacks: {', '.join(missing)}.")
    hints = typing.get_type_hints(kind)
    return kind(**{name: _value(hints[name], value, f"{source}: {name}") for name, value in content.items()})


def _needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _value(hint: Any, value: Any, where: str) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if _fits(option, value):
            break
    else:
        checks.fail(where, f"be {' or '.join(_name(option) for option in options)}", value)
    if dataclasses.is_dataclass(option):
        return from_content(option, value, where)  # type: ignore[arg-type]
    if typing.get_origin(option) is tuple:
        item, *_ = typing.get_args(option)
        return tuple(_value(item, one, f"{where}[{n}]") for n, one in enumerate(value))
    if typing.get_origin(option) is dict:
        _, item = typing.get_args(option)
        return {key: _value(item, one, f"{where}.{key}") for key, one in value.items()}
    return value


def _fits(hint: Any, value: Any) -> bool:
    """Whether a value has a type, but for what is inside of it."""
    if hint is Any:
        return True
    if dataclasses.is_dataclass(hint) or typing.get_origin(hint) is dict:
        return isinstance(value, dict)
    if typing.get_origin(hint) is tuple:
        return isinstance(value, list)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)


def _name(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    if kind is types.NoneType:
        return "null"
    return NAMES.get(kind, "a table")
