"""Check arguments. Every input error names the argument, its rule, the value and the remedy.

>>> integer("hidden_size", 0, minimum=1)
Traceback (most recent call last):
    ...
autapse.checks.InputError: hidden_size must be an integer of at least 1; got 0.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from typing import Any, NoReturn

from autapse.terminal import visible

LARGEST = 2**53  # larger than any size, count or position in practice


class InputError(ValueError):
    """An argument, a file or a setting breaks its rule. The message says which one, how, and what to do.

    The message is one line. It may contain names from files, so control characters are shown as escapes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


class ShapeError(InputError, RuntimeError):
    """A tensor has the wrong shape. Also a RuntimeError, because torch.nn raises that for wrong shapes."""


class KindError(InputError, TypeError):
    """A value has the wrong Python type. Also a TypeError, because torch.nn raises that for wrong types."""


def fail(argument: str, rule: str, value: object, remedy: str = "", kind: type[InputError] = InputError) -> NoReturn:
    """Raise an error of the form "<argument> must <rule>; got <value>. <remedy>"."""
    raise kind(f"{argument} must {rule}; got {_shown(value)}. {remedy}".rstrip())


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python does not print integers of more than 4300 digits
        return f"a value of type {type(value).__name__} that cannot be written out"


def brief(values: Any) -> Any:
    """The first few of many values, for a message. `values` may be a list, an array or a tensor."""
    values = values.tolist() if hasattr(values, "tolist") else values
    return [*values[:8], "..."] if isinstance(values, list) and len(values) > 8 else values


def closest(word: str, choices: Iterable[str]) -> str:
    """'Did you mean ...?' if `word` is similar to one of the choices; otherwise empty."""
    names = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return f"Did you mean {names[close[0]]!r}?" if close else ""


def one_of(argument: str, value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        fail(argument, f"be one of {', '.join(choices)}", value, closest(str(value), choices))
    return value


def integer(
    argument: str, value: object, minimum: int | None = None, remedy: str = "", *, maximum: int | None = None
) -> int:
    """Return `value` as an int from `minimum` to `maximum`. A bool is an error.

    Without a `maximum` it must be below 2**53: numpy and torch use 64 bits, and sums and products of larger integers
    overflow there, or become floats.
    """
    bounds = [f"{word} {bound}" for word, bound in (("at least", minimum), ("at most", maximum)) if bound is not None]
    rule = " of ".join(["be an integer", *([" and ".join(bounds)] if bounds else [])])
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        fail(argument, rule, value, remedy, KindError)
    value = int(value)
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        fail(argument, rule, value, remedy)
    if maximum is None and abs(value) >= LARGEST:
        fail(argument, "be an integer below 2**53", value, remedy)
    return value


def seed(argument: str, value: object) -> int:
    """Return `value` as a seed for numpy and torch, from 0 to 2**64 − 1."""
    if not isinstance(value, numbers.Integral) or int(value) < LARGEST:
        return integer(argument, value, minimum=0)
    if int(value) >= 2**64:
        fail(argument, "be below 2**64", int(value))
    return int(value)


def number(
    argument: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: float | None = None,
    remedy: str = "",
) -> float:
    """Return `value` as a finite float in [low, high] and greater than `above`. A bool is an error."""
    bounds = [f"above {above:g}"] if above is not None else [f"at least {low:g}"] if low > -math.inf else []
    bounds += [f"at most {high:g}"] if high < math.inf else []
    rule = " ".join(["be a finite number", " and ".join(bounds)]).rstrip()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        fail(argument, rule, value, remedy, KindError)
    try:
        value = float(value)
    except OverflowError:  # an integer larger than the largest float
        value = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    if not (math.isfinite(value) and low <= value <= high and (above is None or value > above)):
        fail(argument, rule, value, remedy)
    return value


def boolean(argument: str, value: object) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        fail(argument, "be True or False", value, kind=KindError)
    return value
