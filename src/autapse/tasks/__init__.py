"""Tasks: data in three splits, a metric, a trivial baseline and, if it is known, the best possible score.

>>> from autapse.tasks import Adding
>>> data = Adding(length=50).split("test", seed=0)
>>> data.inputs.shape, data.targets.shape
((2000, 50, 2), (2000, 1))
"""

from __future__ import annotations

from importlib.metadata import EntryPoint

from autapse import checks, plugins
from autapse.tasks.activities import DSA, HAR
from autapse.tasks.adding import Adding
from autapse.tasks.arrays import ArrayTask
from autapse.tasks.associative_recall import AssociativeRecall
from autapse.tasks.babi import BAbI
from autapse.tasks.base import (
    IGNORE,
    SPLITS,
    Data,
    Generated,
    Kind,
    Metric,
    Signature,
    Split,
    Task,
    generator,
    majority_error,
)
from autapse.tasks.brackets import Brackets
from autapse.tasks.copy import Copy
from autapse.tasks.dates import Dates
from autapse.tasks.digits import Digits
from autapse.tasks.expressions import Expressions, ExpressionsText
from autapse.tasks.forecast import Forecast, ForecastArrays, Forecasting
from autapse.tasks.generation import Generation
from autapse.tasks.images import CIFAR10, MNIST, FashionMNIST, NoisyCIFAR10
from autapse.tasks.lorenz import Lorenz
from autapse.tasks.mackey_glass import MackeyGlass
from autapse.tasks.memory_capacity import MemoryCapacity
from autapse.tasks.mnist_image import MNISTImage
from autapse.tasks.multiplication import Multiplication
from autapse.tasks.narma import NARMA
from autapse.tasks.own_sequences import OwnSequences
from autapse.tasks.pendulum import Pendulum
from autapse.tasks.pointers import Pointers
from autapse.tasks.pos import POS
from autapse.tasks.priority_sort import PrioritySort
from autapse.tasks.ptb import PTB, PTBCharacters
from autapse.tasks.random_permutation import RandomPermutation
from autapse.tasks.repeat_copy import RepeatCopy
from autapse.tasks.reverse import Reverse
from autapse.tasks.reviews import IMDB, Yelp
from autapse.tasks.series import Archive, OwnSeries
from autapse.tasks.shapes import Shapes
from autapse.tasks.slow_and_fast import SlowAndFast
from autapse.tasks.speech import Speech
from autapse.tasks.spike_patterns import SpikePatterns
from autapse.tasks.stored import Stored
from autapse.tasks.strokes import Strokes
from autapse.tasks.temporal_order import TemporalOrder
from autapse.tasks.translate import OwnPairs, TextPairs, Translating
from autapse.tasks.trees import SST, OwnTrees, TreeTask
from autapse.tasks.walk import Walk
from autapse.tasks.walk_variance import WalkVariance
from autapse.tasks.xor import XOR

GENERATED: tuple[type[Generated], ...] = (
    *(Adding, Multiplication, XOR, TemporalOrder, RandomPermutation),
    *(Copy, RepeatCopy, AssociativeRecall, PrioritySort, Reverse, Dates),
    *(Digits, Pointers, SlowAndFast, Walk, WalkVariance, Brackets, MackeyGlass, Pendulum, Strokes),
    *(NARMA, MemoryCapacity, Lorenz, SpikePatterns),
    *(Shapes, Expressions, ExpressionsText),
)
STORED: tuple[type[Stored], ...] = (
    *(MNIST, MNISTImage, FashionMNIST, CIFAR10, NoisyCIFAR10, HAR, DSA, Speech, Yelp, IMDB),
    *(PTB, PTBCharacters, POS, BAbI, SST, OwnTrees, Archive, OwnSeries, OwnSequences),
)
EVERY: tuple[type[Task], ...] = (*GENERATED, *STORED, Forecast, OwnPairs)
TASKS: dict[str, type[Task]] = {task.name: task for task in EVERY}


def task_class(name: str) -> type[Task]:
    """The class of a task.

    Args:
        name: Name of the task on the command line, from autapse or from another installed package.

    Returns:
        The subclass of `Task`. An unknown name is an InputError.

    Example:
        >>> task_class("adding").__name__
        'Adding'
    """
    others = {} if name in TASKS else offered()
    if name not in others:
        return TASKS[checks.one_of("task", name, [*TASKS, *others])]
    task = plugins.load("task", others[name])
    if not (isinstance(task, type) and issubclass(task, Task)):
        checks.fail(f"entry point {name}", "be a subclass of autapse.tasks.Task", task, kind=checks.KindError)
    return task


def offered() -> dict[str, EntryPoint]:
    """The tasks of other installed packages.

    Returns:
        The entry points of the group `autapse.tasks`, by name. They are not loaded yet.
    """
    return plugins.offered("autapse.tasks", TASKS)


__all__ = [
    "CIFAR10",
    "DSA",
    "GENERATED",
    "HAR",
    "IGNORE",
    "IMDB",
    "MNIST",
    "NARMA",
    "POS",
    "PTB",
    "SPLITS",
    "SST",
    "STORED",
    "TASKS",
    "XOR",
    "Adding",
    "Archive",
    "ArrayTask",
    "AssociativeRecall",
    "BAbI",
    "Brackets",
    "Copy",
    "Data",
    "Dates",
    "Digits",
    "Expressions",
    "ExpressionsText",
    "FashionMNIST",
    "Forecast",
    "ForecastArrays",
    "Forecasting",
    "Generated",
    "Generation",
    "Kind",
    "Lorenz",
    "MNISTImage",
    "MackeyGlass",
    "MemoryCapacity",
    "Metric",
    "Multiplication",
    "NoisyCIFAR10",
    "OwnPairs",
    "OwnSequences",
    "OwnSeries",
    "OwnTrees",
    "PTBCharacters",
    "Pendulum",
    "Pointers",
    "PrioritySort",
    "RandomPermutation",
    "RepeatCopy",
    "Reverse",
    "Shapes",
    "Signature",
    "SlowAndFast",
    "Speech",
    "SpikePatterns",
    "Split",
    "Stored",
    "Strokes",
    "Task",
    "TemporalOrder",
    "TextPairs",
    "Translating",
    "TreeTask",
    "Walk",
    "WalkVariance",
    "Yelp",
    "generator",
    "majority_error",
    "offered",
    "task_class",
]
