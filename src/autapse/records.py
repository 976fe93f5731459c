"""Dataclasses as JSON and TOML: written as they are, read with every name and every type checked."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Literal, Self, TypeVar

from autapse import checks

T = TypeVar("T")
NAMES = {str: "text", bool: "true or false", int: "an integer", float: "a number", dict: "a table", tuple: "a list"}


class Record:
    """A base of dataclasses that are stored in files."""

    def to_json(self) -> dict[str, Any]:
        """The fields as plain data, which JSON can hold."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, content: Any, source: object = "") -> Self:
        """The record that `to_json` wrote; see `read`."""
        return read(cls, content, source)


def read(kind: type[T], content: Any, source: object = "") -> T:
    """Make a dataclass from what a JSON or TOML file holds.

    Args:
        kind: the dataclass. Its fields name the keys, and its annotations the types. A field without a default is
            required. A field may itself be a dataclass. A list becomes a tuple; a tuple of one item needs no list. A
            type that JSON does not have takes any value. Ranges are for the dataclass itself to check.
        content: the keys and values.
        source: where they come from. Error messages begin with it.

    Returns:
        An instance of `kind`. Anything unknown, missing or of another type is an `InputError`.

    >>> from autapse.reproduce.recipe import Difference
    >>> read(Difference, {"setting": "training.epochs", "paper": 300, "here": 25}, "my.json")
    Traceback (most recent call last):
        ...
    autapse.checks.InputError: my.json lacks: reason.
    """
    if not isinstance(content, dict):
        checks.fail(str(source) or kind.__name__, "be a table of keys and values", content)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    for name in content:
        checks.one_of(_named(source, "key"), name, [field.name for field in fields])
    missing = [field.name for field in fields if field.name not in content and _required(field)]
    if missing:
        raise checks.InputError(f"{str(source) or kind.__name__} lacks: {', '.join(missing)}.")
    hints = typing.get_type_hints(kind)
    return kind(**{name: _value(hints[name], value, _named(source, name)) for name, value in content.items()})


def _named(source: object, name: str) -> str:
    return f"{source}: {name}" if str(source) else name


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _value(hint: Any, value: Any, name: str) -> Any:
    """`value` as `hint` declares it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of_several(inner, value, name)
    if origin is Literal:
        _check_choice(inner, value, name)
    elif origin is tuple:
        return _items(inner, value, name)
    elif not _fits(hint, value):
        checks.fail(name, f"be {_name(hint)}", value, kind=checks.KindError)
    elif dataclasses.is_dataclass(hint):
        return read(hint, value, name)  # type: ignore[arg-type]
    elif origin is dict:
        return {key: _value(inner[1], one, f"{name}.{key}") for key, one in value.items()}
    elif hint is float:
        _check_size(value, name)
    return value


def _one_of_several(options: tuple[Any, ...], value: Any, name: str) -> Any:
    fitting = [option for option in options if _fits(option, value)]
    fitting += [option for option in options if typing.get_origin(option) is tuple]  # one item needs no list
    if not fitting:
        checks.fail(name, f"be {' or '.join(map(_name, options))}", value, kind=checks.KindError)
    return _value(fitting[0], value, name)


def _check_choice(choices: tuple[Any, ...], value: Any, name: str) -> None:
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        words = [str(choice) for choice in choices]
        checks.fail(name, f"be one of {', '.join(words)}", value, checks.closest(str(value), words))


def _items(inner: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    """A tuple of the right length with items of the right types."""
    items = value if isinstance(value, list | tuple) else [value]
    hints = [inner[0]] * len(items) if inner[-1] is Ellipsis else list(inner)
    if len(items) != len(hints):
        checks.fail(name, f"have {len(hints)} values", value)
    return tuple(_value(hint, item, f"{name}[{n}]") for n, (hint, item) in enumerate(zip(hints, items, strict=True)))


def _check_size(value: float, name: str) -> None:
    try:
        float(value)
    except OverflowError:  # an integer of more than 308 digits
        raise checks.InputError(f"{name} must be a number; got an integer that is too large.") from None


def _fits(hint: Any, value: Any) -> bool:
    """Whether a value has a type, apart from what is inside it."""
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint) or origin is dict:
        return isinstance(value, dict)
    if origin is tuple:
        return isinstance(value, list | tuple)
    if origin is Literal:
        return value in typing.get_args(hint)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in (str, bool, types.NoneType) else True


def _name(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    if kind is types.NoneType:
        return "null"
    if kind is Literal:
        return f"one of {', '.join(map(str, typing.get_args(hint)))}"
    return NAMES.get(kind, "a table")
