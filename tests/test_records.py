from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from autapse import checks, records
from damage import message


@dataclass
class Settings:
    count: int
    share: float = 0.5
    on: bool = False
    name: str = "x"
    limit: int | None = None
    sizes: tuple[int, ...] = ()
    pair: tuple[float, float] = (0.0, 1.0)
    words: tuple[tuple[str, ...], ...] = ()
    mode: Literal["slow", "fast"] = "slow"
    classes: Literal[2, 6] = 2
    either: int | str = 0
    other: Any = field(default=None)


def test_values_of_the_declared_types_are_taken():
    content = {
        "count": 3,
        "share": 1,
        "on": True,
        "name": "y",
        "limit": None,
        "sizes": [1, 2],
        "pair": [1, 2.5],
        "words": [["a", "b"], []],
        "mode": "fast",
        "classes": 6,
        "either": "any",
        "other": {"any": [1]},
    }
    expected = {"sizes": (1, 2), "pair": (1, 2.5), "words": (("a", "b"), ())}
    assert records.read(Settings, content) == Settings(**{**content, **expected})
    assert records.read(Settings, {"count": 0, "sizes": 4}).sizes == (4,)  # one item needs no list


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": True}, "count must be an integer; got True."),
        ({"count": 1.0}, "count must be an integer; got 1.0."),
        ({"count": None}, "count must be an integer; got None."),
        ({"share": "1"}, "share must be a number; got '1'."),
        ({"share": False}, "share must be a number; got False."),
        ({"share": 10**400}, "share must be a number; got an integer that is too large."),
        ({"on": 1}, "on must be true or false; got 1."),
        ({"name": 5}, "name must be text; got 5."),
        ({"name": None}, "name must be text; got None."),
        ({"limit": "1"}, "limit must be an integer or null; got '1'."),
        ({"sizes": [1, "2"]}, "sizes[1] must be an integer; got '2'."),
        ({"pair": [1.0]}, "pair must have 2 values; got [1.0]."),
        ({"words": [["a", 1]]}, "words[0][1] must be text; got 1."),
        ({"mode": "fats"}, "mode must be one of slow, fast; got 'fats'. Did you mean 'fast'?"),
        ({"classes": 3}, "classes must be one of 2, 6; got 3."),
        ({"classes": 2.0}, "classes must be one of 2, 6; got 2.0."),
        ({"cuont": 3}, "Did you mean 'count'?"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_others_are_named(change, said):
    assert said in message(records.read, Settings, {"count": 1, **change})


@pytest.mark.parametrize("content", [None, [], "x", 5])
def test_what_is_no_object_is_named(content):
    with pytest.raises(checks.InputError, match="Settings must be a table of keys and values"):
        records.read(Settings, content)
