"""help() of a task, and of everything else that autapse.tasks offers, describes every option."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import pytest

from autapse import tasks
from autapse.tasks import TASKS

CLASSES = [*TASKS.values(), tasks.ArrayTask, tasks.ForecastArrays, tasks.Data, tasks.Signature]
FUNCTIONS = [tasks.generator, tasks.majority_error, tasks.offered, tasks.task_class]


def described(thing: Any) -> set[str]:
    """The names before a colon in the section "Args" of a docstring."""
    section = (inspect.getdoc(thing) or "").partition("Args:\n")[2].partition("\n\n")[0]
    return {name for names in re.findall(r"(?m)^    ([\w, ]+): \S", section) for name in names.split(", ")}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_option_explains_itself(kind: type) -> None:
    options = {field.name for field in dataclasses.fields(kind)} | set(inspect.signature(kind).parameters)
    assert options - described(kind) == set()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_argument_explains_itself(function: Any) -> None:
    assert set(inspect.signature(function).parameters) == described(function)
