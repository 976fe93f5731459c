"""Tasks: data in three splits, a metric, a trivial baseline and, where it is known, the best score there can be.

>>> from autapse.tasks import Adding
>>> data = Adding(length=50).split("test", seed=0)
>>> data.inputs.shape, data.targets.shape
((2000, 50, 2), (2000, 1))
"""

from __future__ import annotations

from autapse import checks
from autapse.tasks.adding import Adding
from autapse.tasks.base import IGNORE, SPLITS, Data, Kind, Metric, Split, Task, generator, majority_error
from autapse.tasks.copy import Copy
from autapse.tasks.digits import Digits
from autapse.tasks.walk import Walk
from autapse.tasks.walk_variance import WalkVariance

TASKS: dict[str, type[Task]] = {task.name: task for task in (Adding, Copy, Digits, Walk, WalkVariance)}


def task_class(name: str) -> type[Task]:
    """The task that the command line calls `name`."""
    return TASKS[checks.one_of("task", name, TASKS)]


__all__ = [
    "IGNORE",
    "SPLITS",
    "TASKS",
    "Adding",
    "Copy",
    "Data",
    "Digits",
    "Kind",
    "Metric",
    "Split",
    "Task",
    "Walk",
    "WalkVariance",
    "generator",
    "majority_error",
    "task_class",
]
