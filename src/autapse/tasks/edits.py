"""Edit distance: how many symbols must be changed, added or removed to turn one sequence into another."""

from __future__ import annotations

import numpy as np

from autapse.data.ragged import Ragged

ROWS = 1024  # pairs at a time


def edit_distances(made: Ragged, wanted: Ragged) -> np.ndarray:  # [N] int64
    """The edit distance (Levenshtein 1966) of each pair of sequences.

    Args:
        made: the sequences, of integers.
        wanted: the sequences that they are compared with. A negative entry is equal to nothing.

    Returns:
        One distance per pair.

    >>> one, other = Ragged.of([np.array([1, 2, 3])]), Ragged.of([np.array([1, 3, 4, 5])])
    >>> edit_distances(one, other)
    array([3])
    """
    count = len(made)
    order = np.argsort(wanted.lengths, kind="stable")
    distances = np.zeros(count, dtype=np.int64)
    for first in range(0, count, ROWS):
        chosen = order[first : first + ROWS]
        distances[chosen] = _distances(made.take(chosen), wanted.take(chosen))
    return distances


def _distances(made: Ragged, wanted: Ragged) -> np.ndarray:  # [n]
    """Row i of the usual table for all pairs at once: the distance of the first i symbols made to each beginning."""
    target = _padded(wanted, -1)
    places = np.arange(target.shape[1] + 1)
    row = np.tile(places, (len(target), 1))  # [n, S + 1]
    for i, symbol in enumerate(_padded(made, -2).T):
        changed = row[:, :-1] + ((symbol[:, None] != target) | (target < 0))
        best = np.concatenate([row[:, :1] + 1, np.minimum(changed, row[:, 1:] + 1)], axis=1)
        # A symbol may be added after each beginning: the least of best[k] + (j − k) over k ≤ j.
        best = np.minimum.accumulate(best - places, axis=1) + places
        row = np.where((i < made.lengths)[:, None], best, row)
    return np.take_along_axis(row, wanted.lengths[:, None], axis=1)[:, 0]


def _padded(sequences: Ragged, fill: int) -> np.ndarray:  # [n, longest]
    inside = np.arange(sequences.lengths.max(initial=0)) < sequences.lengths[:, None]
    padded = np.full(inside.shape, fill, dtype=np.int64)
    padded[inside] = sequences.values
    return padded
