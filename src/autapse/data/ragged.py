"""Sequences of unequal length without padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autapse import checks


@dataclass(frozen=True, eq=False)
class Ragged:
    """N sequences, concatenated: sequence n is values[starts[n]:starts[n + 1]].

    Args:
        values: [total steps, ...] the steps of all sequences.
        lengths: [N] int64 the number of steps of each sequence.

    >>> two = Ragged.of([np.array([1, 2, 3]), np.array([4])])
    >>> two[0], two.lengths
    (array([1, 2, 3]), array([3, 1]))
    """

    values: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, sequences: Sequence[np.ndarray]) -> Ragged:
        """Make ragged sequences from a list of arrays, one per sequence; the list must not be empty."""
        return cls(np.concatenate(sequences), np.array([len(s) for s in sequences], dtype=np.int64))

    @cached_property
    def starts(self) -> np.ndarray:  # [N + 1]
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, n: int) -> np.ndarray:
        start = self.starts[:-1][n]
        return self.values[start : start + self.lengths[n]]

    def take(self, index: Iterable[int]) -> Ragged:
        """The sequences at `index`, in this order."""
        chosen = np.asarray(list(index), dtype=np.int64)
        lengths = self.lengths[chosen]
        # Each row of the result is in `values` at the start of its sequence plus its step in the sequence.
        shift = np.repeat(self.starts[:-1][chosen] - (np.cumsum(lengths) - lengths), lengths)
        return Ragged(self.values[np.arange(len(shift)) + shift], lengths)


def padded_lengths(lengths: object, count: int, steps: int) -> np.ndarray:
    """The lengths of `count` sequences that are padded to `steps` steps, as the caller gave them; None: no padding."""
    if lengths is None:
        return np.full(count, steps)
    given = np.asarray(lengths)
    if given.shape != (count,) or given.dtype.kind not in "iu" or not ((given >= 1) & (given <= steps)).all():
        checks.fail("lengths", f"be {count} integers from 1 to {steps}, one per sequence", checks.brief(lengths))
    return given


def dense(values: np.ndarray | Ragged) -> np.ndarray:
    """The values of an array or of ragged sequences, as one array; ragged sequences are concatenated."""
    return values.values if isinstance(values, Ragged) else values


def alike(pattern: np.ndarray | Ragged, values: np.ndarray) -> np.ndarray | Ragged:
    """`values` as ragged sequences if `pattern` is ragged: the inverse of `dense`."""
    return Ragged(values, pattern.lengths) if isinstance(pattern, Ragged) else values
