import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from autapse import checks, records
from autapse.tasks import Adding
from autapse.training import RunConfig, TrainingConfig
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


@dataclass(frozen=True)
class Part:
    name: str
    weight: float | None = None


@dataclass(frozen=True)
class Whole(records.Record):
    parts: tuple[Part, ...]
    sizes: tuple[int, ...] | None = None
    notes: dict[str, str] = field(default_factory=dict)
    score: bool | float | None = None


def test_a_record_is_the_same_after_writing_and_reading():
    whole = Whole((Part("a", 0.5), Part("b")), (3,), {"x": "y"}, True)
    assert Whole.from_json(json.loads(json.dumps(whole.to_json()))) == whole


def test_one_item_needs_no_list_also_if_it_may_be_null():
    assert Whole.from_json({"parts": [], "sizes": 5}).sizes == (5,)
    assert Whole.from_json({"parts": [], "sizes": None}).sizes is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "my.json lacks: parts."),
        ({"parts": [{"name": "a"}, {}]}, "my.json: parts[1] lacks: name."),
        ({"parts": [{"name": "a", "weight": "1"}]}, "my.json: parts[0]: weight must be a number or null; got '1'."),
        ({"parts": [], "notes": {"x": 1}}, "my.json: notes.x must be text; got 1."),
        ({"parts": [], "score": "high"}, "my.json: score must be true or false or a number or null; got 'high'."),
        ({"parts": [], "scores": 1}, "my.json: key must be one of parts, sizes, notes, score; got 'scores'."),
    ],
)
def test_a_message_names_the_source_and_the_place(content, said):
    assert said in message(Whole.from_json, content, "my.json")


def test_a_config_with_any_valid_seed_can_be_read_again():
    config = RunConfig(task=Adding(), training=TrainingConfig(seed=2**64 - 1))
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(checks.InputError, match="steps must be an integer below"):
        RunConfig.from_json(config.to_json() | {"training": {"steps": 2**60}})
