"""The words of every input error, and what passes."""

from __future__ import annotations

import doctest
import re
from typing import Any

import numpy as np
import pytest
import torch

from autapse import checks
from autapse.checks import InputError, KindError, ShapeError


def fails(kind: type[Exception], message: str) -> Any:
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def test_the_one_sentence_form() -> None:
    with fails(InputError, "speed must be below 300; got 'fast'. Slow down."):
        checks.fail("speed", "be below 300", "fast", "Slow down.")
    with fails(InputError, "speed must be below 300; got 301."):
        checks.fail("speed", "be below 300", 301)
    with fails(ShapeError, "x must have shape (2,); got (3,)."):
        checks.fail("x", "have shape (2,)", (3,), kind=ShapeError)


def test_messages_are_one_line_that_no_terminal_obeys() -> None:
    with fails(InputError, r"x\x1b[31m\n must be a file; got 1."):
        checks.fail("x\x1b[31m\n", "be a file", 1)
    with pytest.raises(ShapeError, match=r"^a\\nb$"):
        raise ShapeError("a\nb")


@pytest.mark.parametrize(
    ("kind", "bases"),
    [(InputError, (ValueError,)), (ShapeError, (ValueError, RuntimeError)), (KindError, (ValueError, TypeError))],
)
def test_kinds_are_also_what_torch_raises(kind: type[Exception], bases: tuple[type[Exception], ...]) -> None:
    for base in (InputError, *bases):
        with pytest.raises(base, match="nothing"):
            raise kind("nothing")


@pytest.mark.parametrize(
    ("word", "choices", "expected"),
    [
        ("tahn", ["tanh", "relu"], "Did you mean 'tanh'?"),
        ("RELU", ["tanh", "relu"], "Did you mean 'relu'?"),
        ("ernn", ["RNN", "ERNN"], "Did you mean 'ERNN'?"),
        ("xyz", ["tanh", "relu"], ""),
        ("", ["tanh"], ""),
        ("tanh", [], ""),
    ],
)
def test_closest(word: str, choices: list[str], expected: str) -> None:
    assert checks.closest(word, choices) == expected


def test_one_of() -> None:
    assert checks.one_of("mode", "b", ("a", "b")) == "b"
    assert checks.one_of("mode", "b", {"a": 1, "b": 2}) == "b"
    assert checks.one_of("mode", "b", iter("ab")) == "b"
    with fails(InputError, "mode must be one of after, before; got 'befor'. Did you mean 'before'?"):
        checks.one_of("mode", "befor", iter(["after", "before"]))
    for value in (None, 1, ["a"]):
        with fails(InputError, f"mode must be one of a, b; got {value!r}."):
            checks.one_of("mode", value, ("a", "b"))


@pytest.mark.parametrize("value", [0, 5, -3, 2**53 - 1, np.int64(7), np.uint8(7)])
def test_integers(value: Any) -> None:
    found = checks.integer("n", value)
    assert found == value
    assert type(found) is int


@pytest.mark.parametrize("value", [True, False, np.True_, 1.0, "1", None, [1], np.float64(1), 1j])
def test_not_integers(value: Any) -> None:
    with fails(KindError, f"n must be an integer; got {value!r}."):
        checks.integer("n", value)


def test_integers_from_a_minimum() -> None:
    assert checks.integer("n", 3, minimum=3) == 3
    with fails(InputError, "n must be an integer of at least 3; got 2. Take more."):
        checks.integer("n", np.int64(2), minimum=3, remedy="Take more.")
    with pytest.raises(InputError) as caught:
        checks.integer("n", 2, minimum=3)
    assert not isinstance(caught.value, TypeError), "a wrong value is no wrong type"


def test_integers_up_to_a_maximum() -> None:
    assert checks.integer("n", 3, maximum=3) == 3
    with fails(InputError, "n must be an integer of at most 3; got 4."):
        checks.integer("n", 4, maximum=3)
    for value in (0, 4):
        with fails(InputError, f"n must be an integer of at least 1 and at most 3; got {value}."):
            checks.integer("n", value, minimum=1, maximum=3)


def test_integers_are_those_that_can_be_counted_with() -> None:
    assert checks.integer("n", 2**53 - 1) == 2**53 - 1
    for value in (2**53, -(2**53)):
        with fails(InputError, f"n must be an integer below 2**53; got {value}."):
            checks.integer("n", value)


def test_seeds_are_those_of_torch() -> None:
    for value in (0, 2**53, 2**64 - 1):
        assert checks.seed("seed", value) == value
        torch.Generator().manual_seed(value)
    with fails(InputError, "seed must be below 2**64; got 18446744073709551616."):
        checks.seed("seed", 2**64)
    with fails(InputError, "seed must be an integer of at least 0; got -1."):
        checks.seed("seed", -1)


def test_integers_too_long_to_write() -> None:
    with pytest.raises(InputError, match="n must be an integer of at most 3; got a value of type int that cannot"):
        checks.integer("n", 10**5000, maximum=3)
    with fails(InputError, "x must be a finite number; got inf."):
        checks.number("x", 10**5000)


@pytest.mark.parametrize("value", [0, 0.5, -1e300, np.float32(0.5), np.int64(2)])
def test_numbers(value: Any) -> None:
    found = checks.number("x", value)
    assert found == float(value)
    assert type(found) is float


@pytest.mark.parametrize("value", [True, "1.0", None, [1.0], 1j])
def test_not_numbers(value: Any) -> None:
    with fails(KindError, f"x must be a finite number; got {value!r}."):
        checks.number("x", value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_are_finite(value: float) -> None:
    with fails(InputError, f"x must be a finite number; got {value!r}."):
        checks.number("x", value)


@pytest.mark.parametrize(
    ("bounds", "good", "bad", "rule"),
    [
        ({"low": 0.0}, [0.0, 5.0], [-0.1], "a finite number at least 0"),
        ({"high": 1.0}, [1.0, -5.0], [1.1], "a finite number at most 1"),
        ({"low": 0.0, "high": 1.0}, [0.0, 1.0], [-0.1, 1.1], "a finite number at least 0 and at most 1"),
        ({"above": 0.0}, [1e-9], [0.0, -1.0], "a finite number above 0"),
        ({"above": 0.0, "high": 1.0}, [0.5, 1.0], [0.0, 1.5], "a finite number above 0 and at most 1"),
        ({"low": 1.0, "above": 1.0}, [1.1], [1.0, 0.5], "a finite number above 1"),
    ],
    ids=str,
)
def test_numbers_in_bounds(bounds: dict[str, float], good: list[float], bad: list[float], rule: str) -> None:
    for value in good:
        assert checks.number("x", value, **bounds) == value
    for value in bad:
        with fails(InputError, f"x must be {rule}; got {value!r}."):
            checks.number("x", value, **bounds)


def test_booleans() -> None:
    assert checks.boolean("flag", True) is True
    assert checks.boolean("flag", False) is False
    for value in (0, 1, "True", None):
        with fails(KindError, f"flag must be True or False; got {value!r}."):
            checks.boolean("flag", value)


def test_the_examples_in_the_docstrings() -> None:
    result = doctest.testmod(checks)
    assert result.attempted > 0
    assert result.failed == 0
