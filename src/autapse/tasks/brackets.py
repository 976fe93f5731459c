"""Balanced brackets: words whose probability and length distribution are known exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.tasks.base import Data, Generated, Signature, Split, WrittenShape, dense, generator
from autapse.tasks.generation import Generation, nothing, with_gaps

KINDS = ("()", "[]", "{}", "<>")


@dataclass(frozen=True, kw_only=True)
class Brackets(Generation, Generated):
    """y is a word of n pairs of balanced brackets: n is drawn from `pairs`, then all such words are equally likely.

    To end at the right place, a network must count the open brackets and the steps. The lengths have two groups, so
    they are far from those of a coin that is thrown at each step.

    Args:
        pairs: The numbers of pairs n, each equally likely.
        kinds: Kinds of brackets, from 1 to 4. An opening bracket has a random kind, which the closing one repeats.
        missing: Share of the symbols that are missing, at random.
        train_size, validation_size, test_size: Number of words in each split.

    Example:
        >>> task = Brackets(pairs=(2, 3))
        >>> task.words(task.split("test", seed=0))[:3]
        ['()(())', '()()', '(())']
    """

    pairs: tuple[int, ...] = (3, 4, 5, 9, 10, 11)
    kinds: int = 1
    missing: float = 0.0

    name: ClassVar[str] = "brackets"
    summary: ClassVar[str] = "write words of balanced brackets, whose lengths have a known distribution"
    input_size = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.pairs
        given = (given,) if isinstance(given, int) else tuple(given)
        object.__setattr__(self, "pairs", given)
        for number in given:
            checks.integer("pairs", number, minimum=1, maximum=200)
        if not given or len(set(given)) != len(given):
            checks.fail("pairs", "be different numbers, at least one", given)
        checks.integer("kinds", self.kinds, minimum=1, maximum=len(KINDS))
        checks.number("missing", self.missing, low=0.0, high=0.9)

    @property
    def output_size(self) -> int:
        return 2 * self.kinds

    @property
    def symbols(self) -> tuple[str, ...]:
        """The brackets: first those that open."""
        kinds = KINDS[: self.kinds]
        return (*(kind[0] for kind in kinds), *(kind[1] for kind in kinds))

    def signature(self) -> Signature:
        shape = WrittenShape(longest=2 * max(self.pairs), gaps=self.missing > 0, separator="")
        return Signature(
            kind=self.kind, input_size=0, output_size=self.output_size, classes=self.symbols, written=shape
        )

    def split(self, split: Split, seed: int) -> Data:
        rng, size = generator(split, seed), self.size(split)
        pairs = rng.choice(np.array(self.pairs), size)
        words = Ragged.of([self._word(int(n), rng) for n in pairs])
        return Data(nothing(size), Ragged(with_gaps(words.values, self.missing, rng), words.lengths))

    def _word(self, pairs: int, rng: np.random.Generator) -> np.ndarray:  # [2·pairs] int64
        """A word, each with the same chance: a bracket opens in proportion to the words that can follow."""
        word, stack = np.zeros(2 * pairs, dtype=np.int64), list[int]()
        chances, kinds = rng.random(2 * pairs), rng.integers(0, self.kinds, 2 * pairs)
        for t in range(2 * pairs):
            left, depth = 2 * pairs - t, len(stack)
            # Of the ways to complete the word, the share in which the next bracket opens.
            opens = (left - depth) * (depth + 2) / (2 * left * (depth + 1))
            if chances[t] < opens:
                stack.append(int(kinds[t]))
                word[t] = stack[-1]
            else:
                word[t] = self.kinds + stack.pop()
        return word

    def words(self, data: Data) -> list[str]:
        """The words of a split as text, without those symbols that are missing."""
        assert isinstance(data.targets, Ragged)
        rows = (data.targets[n] for n in range(len(data)))
        return ["".join(self.symbols[symbol] for symbol in row if symbol >= 0) for row in rows]

    def length_chances(self) -> np.ndarray:
        chances = np.zeros(2 * max(self.pairs))
        chances[2 * np.array(self.pairs) - 1] = 1 / len(self.pairs)
        return chances

    def floor(self, data: Data) -> float | None:
        """The true nats per step of these words; not known if symbols are missing."""
        if self.missing:
            return None
        assert isinstance(data.targets, Ragged)
        known = {2 * n: math.log(len(self.pairs)) + _log_words(n) + n * math.log(self.kinds) for n in self.pairs}
        return float(sum(known[int(length)] for length in data.targets.lengths) / len(dense(data.targets)))


def _log_words(pairs: int) -> float:
    """The log of the number of words with one kind of brackets, a Catalan number."""
    return math.lgamma(2 * pairs + 1) - math.lgamma(pairs + 1) - math.lgamma(pairs + 2)
