"""A dataclass from JSON: no unknown field, and every value has the type that its field declares."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from autapse import checks

T = TypeVar("T")


def read(kind: type[T], content: Any) -> T:
    """A `kind` with the values of a JSON object. Lists become tuples where the field is a tuple."""
    if not isinstance(content, dict):
        checks.fail(kind.__name__, "be a JSON object", content)
    hints = get_type_hints(kind)
    known = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in content:
        checks.one_of("setting", name, known)
    return kind(**{name: _converted(name, value, hints[name]) for name, value in content.items()})


def _converted(name: str, value: Any, hint: Any) -> Any:
    """`value` as `hint` declares it; a type that JSON does not have takes any value."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        return value if value is None or len(kinds) > 1 else _converted(name, value, kinds[0])
    if origin is tuple:
        return _items(name, value, inner)
    if origin is Literal and not any(value == choice and type(value) is type(choice) for choice in inner):
        words = [str(choice) for choice in inner]
        checks.fail(name, f"be one of {', '.join(words)}", value, checks.closest(str(value), words))
    elif hint is float:
        _check_float(name, value)
    elif hint is int:
        checks.integer(name, value)
    elif hint is bool:
        checks.boolean(name, value)
    elif hint is str and not isinstance(value, str):
        checks.fail(name, "be text", value, kind=checks.KindError)
    return value


def _check_float(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        checks.fail(name, "be a number", value, kind=checks.KindError)
    try:
        float(value)
    except OverflowError:  # an integer of more than 308 digits
        raise checks.InputError(f"{name} must be a number; got an integer that is too large.") from None


def _items(name: str, value: Any, inner: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list or tuple of the right length with items of the right type; one item needs no list around it."""
    items = value if isinstance(value, list | tuple) else [value]
    kinds = [inner[0]] * len(items) if inner[-1] is Ellipsis else list(inner)
    if len(items) != len(kinds):
        checks.fail(name, f"have {len(kinds)} values", value)
    return tuple(_converted(name, item, kind) for item, kind in zip(items, kinds, strict=True))
