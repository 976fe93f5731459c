"""Names with options: `ernn:inner_steps=2`. A value in brackets may be one too: `deep:cell=(ernn:inner_steps=2)`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from autapse import checks

OPEN, CLOSE = "([{", ")]}"
MOST_NESTED = 8  # a malicious file must not exhaust the stack


def words_of(spec: str) -> list[str]:
    """The parts between the colons. A colon inside brackets does not separate.

    >>> words_of("deep:cell=(ernn:inner_steps=2):skip=True")
    ['deep', 'cell=(ernn:inner_steps=2)', 'skip=True']
    """
    words, depth = [""], 0
    for letter in spec:
        depth += (letter in OPEN) - (letter in CLOSE)
        if depth > MOST_NESTED:
            checks.fail("cell", f"have at most {MOST_NESTED} brackets inside one another", spec)
        if letter == ":" and depth <= 0:
            words.append("")
        else:
            words[-1] += letter
    return words


def inside(text: str) -> str | None:
    """What is between the brackets, if the whole text is in round brackets; else None.

    >>> inside("(gru:reset=before)"), inside("gru")
    ('gru:reset=before', None)
    """
    return text[1:-1] if text[:1] == "(" and text[-1:] == ")" else None


def parse_options(
    argument: str,
    spec: str,
    name: str,
    words: list[str],
    known: Mapping[str, inspect.Parameter],
    network: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """The options of `name:option=value:…`.

    Args:
        argument: what is described, for error messages.
        spec: the whole text.
        name: its part before the options.
        words: the options, `option=value` each.
        known: the parameters that can be options.
        network: what a name in brackets stands for, in an option that is a text; None: the text without the brackets.

    Returns:
        The values by option.
    """
    options: dict[str, Any] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals or option not in known:
            rule = f"be {name} with options from: {', '.join(known) or 'none'}, as in {name}:option=value"
            checks.fail(argument, rule, spec, checks.closest(option, known))
        if option in options:
            checks.fail(argument, f"have each option once, also {option}", spec)
        # If the option is a text, the value is one too: alignment=none is not None.
        is_text = isinstance(known[option].default, str)
        options[option] = _text(value, network) if is_text else _value(value)
    return options


def _text(value: str, network: Callable[[str], Any] | None) -> Any:
    named = inside(value)
    if named is None:
        return value
    return named if network is None else network(named)


def _value(text: str) -> Any:
    if text.lower() in ("true", "false", "none"):
        text = text.capitalize()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
