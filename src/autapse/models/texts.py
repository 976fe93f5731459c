"""What people pass to a model that translates: texts, arrays, one or many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from autapse import checks
from autapse.models.series import Expected, read_given

TOGETHER = 256  # sequences that are computed at a time


class TextSymbols(Protocol):
    """The symbols that a text may have, with their numbers."""

    def ids(self, text: str) -> np.ndarray: ...  # [T]

    def split(self, text: str) -> list[str]: ...  # its symbols

    def unknown(self, text: str) -> list[str]: ...  # those that are not known

    def text(self, ids: Iterable[int] | np.ndarray) -> str: ...


class Translation(NamedTuple):
    """A translation with its scores.

    Args:
        target: the text, or the numbers of the symbols.
        log_likelihood: its log-likelihood, the end included.
        score: what translations are compared by: the log-likelihood, divided by a power of the length.

    >>> Translation("1997-03-04", -0.2, -0.02).target
    '1997-03-04'
    """

    target: Any
    log_likelihood: float
    score: float


class Sources(NamedTuple):
    """Sequences to translate."""

    series: list[np.ndarray]  # [T_n, D] each
    form: Literal["single", "array", "list"]
    is_text: bool


def read_sources(x: Any, lengths: Any, symbols: TextSymbols | None, expected: Expected) -> Sources:
    """The sequences in what a user passes to `translate`.

    Args:
        x: a text, a list of texts, or arrays as for other models.
        lengths: [N], the length of each sequence of an array with padding.
        symbols: the symbols of a text; None if the model does not know them.
        expected: what the model reads, for arrays.

    Returns:
        The sequences as arrays.
    """
    if isinstance(x, str):
        return read_sources([x], lengths, symbols, expected)._replace(form="single")
    if isinstance(x, list | tuple) and all(isinstance(one, str) for one in x):
        if lengths is not None:
            checks.fail("lengths", "be None for texts, which have their own lengths", lengths)
        return Sources([_ids(f"x[{n}]", text, symbols)[:, None] for n, text in enumerate(x)], "list", True)
    given = read_given(x, lengths, expected)
    return Sources(given.series, given.form, False)


def read_targets(targets: Sequence[Any], symbols: TextSymbols | None, count: int) -> list[np.ndarray]:
    """The numbers of the symbols of some targets.

    Args:
        targets: texts, or arrays [T] of numbers.
        symbols: the symbols of a text; None if the model does not know them.
        count: number of symbols.

    Returns:
        One array per target. A symbol that is not known is an error.
    """
    made = []
    for n, one in enumerate(targets):
        ids = _ids(f"target {n}", one, symbols) if isinstance(one, str) else np.asarray(one)
        if ids.ndim != 1 or (ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= count)):
            checks.fail(f"target {n}", f"be integers from 0 to {count - 1}, [T]", ids)
        made.append(ids.astype(np.int64))
    return made


def _ids(name: str, text: str, symbols: TextSymbols | None) -> np.ndarray:  # [T]
    if symbols is None:
        checks.fail(name, "be numbers: the model does not know which texts they stand for", text)
    ids = symbols.ids(text)
    if (ids < 0).any():  # there is no number for other symbols
        checks.fail(name, "have only symbols that the model knows", symbols.unknown(text)[0])
    return ids


def make_batches(
    series: list[np.ndarray], device: torch.device, size: int = TOGETHER
) -> Iterator[tuple[list[int], Tensor, list[int]]]:
    """The numbers of some sequences, the padded batch of them, and their lengths; those of similar length together."""
    order = sorted(range(len(series)), key=lambda n: len(series[n]))
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        rows = [torch.from_numpy(np.ascontiguousarray(series[n])) for n in chosen]
        padded = pad_sequence(rows, batch_first=True)
        padded = padded if padded.shape[1] else F.pad(padded, (0, 0, 0, 1))  # a layer needs a step, if only of padding
        yield chosen, padded.to(device), [len(row) for row in rows]
