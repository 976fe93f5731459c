"""The value of an expression: a task whose data are trees, and the same data written with brackets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.data.vocabulary import UNKNOWN
from autapse.tasks.base import IGNORE, Data, Generated, Kind, Metric, Signature, Split, TreeShape, generator
from autapse.tasks.trees import NOTHING

DIGITS = 10
OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": lambda a, b: (a + b) % DIGITS, "max": max, "min": min}
SYMBOLS = (*map(str, range(DIGITS)), *OPERATIONS)


class Expression(NamedTuple):
    """An expression: the nodes of its tree in post-order, and the same with brackets."""

    symbols: list[int]  # of each node, in SYMBOLS
    distances: list[int]  # how many nodes later the parent is; 0 for the root
    values: list[int]  # of each node
    text: list[str]  # with brackets


@dataclass(frozen=True, kw_only=True)
class ExpressionTask(Generated):
    """The base of tasks with expressions; not for direct use."""

    numbers: int = 10
    score_numbers: int | None = None

    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent value"
    solved: ClassVar[float | None] = 0.01
    output_size = DIGITS

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("numbers", self.numbers, minimum=2, maximum=500)
        if self.score_numbers is not None:
            checks.integer("score_numbers", self.score_numbers, minimum=2, maximum=500)

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        counts = rng.integers(2, self.numbers + 1, size)
        if self.score_numbers is not None and split != "train":
            counts[:] = self.score_numbers
        return self._data([_expression(int(count), rng) for count in counts])

    @abstractmethod
    def _data(self, expressions: list[Expression]) -> Data:
        """The data of some expressions."""

    def baseline(self, data: Data) -> float:
        assert isinstance(data.targets, Ragged), "expressions are ragged"
        counts = np.bincount(data.targets.values[data.targets.values != IGNORE])
        return float(1 - counts.max() / counts.sum())

    def floor(self, data: Data) -> float:
        """0: the expression determines its value."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Expressions(ExpressionTask):
    """x is the tree of an expression with +, max and min on digits, such as (3 max (4 + 9)); y is its value, mod 10.

    Every inner node has a target: the value of its part. The task expressions-text has the same data as sequences.

    Args:
        numbers: Largest number of digits in an expression; the number is uniform from 2.
        score_numbers: Number of digits of all expressions for validation and test; by default as in training.
        train_size, validation_size, test_size: Number of expressions in each split.

    Example:
        >>> data = Expressions(numbers=2, test_size=3).split("test", seed=0)
        >>> data.inputs[0][:, 1].tolist(), data.targets[0][:2].tolist()  # distances to parents; digits have no target
        ([2, 1, 0], [-100, -100])
    """

    name: ClassVar[str] = "expressions"
    summary: ClassVar[str] = "compute the value of an expression from its tree"
    kind: ClassVar[Kind] = "trees"
    scored: ClassVar[str] = "nodes"
    embedding_size: ClassVar[tuple[int, ...]] = (32,)
    input_size = 1

    def signature(self) -> Signature:
        return Signature(
            kind=self.kind,
            input_size=1,
            output_size=DIGITS,
            vocabularies=((NOTHING, UNKNOWN, *SYMBOLS),),
            classes=tuple(map(str, range(DIGITS))),
            tree=TreeShape(arity=2),
        )

    def _data(self, expressions: list[Expression]) -> Data:
        nodes = [np.stack([np.array(one.symbols) + 2, one.distances], axis=1).astype(np.int64) for one in expressions]
        values = [np.where(np.array(one.symbols) < DIGITS, IGNORE, one.values).astype(np.int64) for one in expressions]
        return Data(Ragged.of(nodes), Ragged.of(values))


@dataclass(frozen=True, kw_only=True)
class ExpressionsText(ExpressionTask):
    """x is an expression with +, max and min on digits, written with brackets; y is the value of what a bracket closes.

    The task expressions has the same data as trees.

    Args:
        numbers: Largest number of digits in an expression; the number is uniform from 2.
        score_numbers: Number of digits of all expressions for validation and test; by default as in training.
        train_size, validation_size, test_size: Number of expressions in each split.

    Example:
        >>> task = ExpressionsText(numbers=2, test_size=3)
        >>> [task.signature().vocabularies[0][n] for n in task.split("test", seed=0).inputs[0][:, 0]][::4]
        ['(', ')']
    """

    name: ClassVar[str] = "expressions-text"
    summary: ClassVar[str] = "compute the value of an expression that is written with brackets"
    kind: ClassVar[Kind] = "tagging"
    embedding_size: ClassVar[tuple[int, ...]] = (32,)
    input_size = 1

    def signature(self) -> Signature:
        classes = tuple(map(str, range(DIGITS)))
        return Signature(
            kind=self.kind, input_size=1, output_size=DIGITS, vocabularies=((*SYMBOLS, "(", ")"),), classes=classes
        )

    def _data(self, expressions: list[Expression]) -> Data:
        place = {symbol: n for n, symbol in enumerate((*SYMBOLS, "(", ")"))}
        tokens, targets = [], []
        for one in expressions:
            values = iter([value for symbol, value in zip(one.symbols, one.values, strict=True) if symbol >= DIGITS])
            tokens.append(np.array([place[token] for token in one.text], dtype=np.int64)[:, None])
            targets.append(np.array([next(values) if token == ")" else IGNORE for token in one.text], dtype=np.int64))
        return Data(Ragged.of(tokens), Ragged.of(targets))


def _expression(count: int, rng: np.random.Generator) -> Expression:
    """A random expression with this many digits: each part is divided at a random place."""
    if count == 1:
        digit = int(rng.integers(DIGITS))
        return Expression([digit], [0], [digit], [str(digit)])
    left_count = int(rng.integers(1, count))
    left, right = _expression(left_count, rng), _expression(count - left_count, rng)
    name = list(OPERATIONS)[rng.integers(len(OPERATIONS))]
    return Expression(
        [*left.symbols, *right.symbols, SYMBOLS.index(name)],
        [*left.distances[:-1], len(right.symbols) + 1, *right.distances[:-1], 1, 0],
        [*left.values, *right.values, OPERATIONS[name](left.values[-1], right.values[-1])],
        ["(", *left.text, name, *right.text, ")"],
    )
