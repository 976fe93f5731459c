"""What people pass to a model that translates: texts, arrays, one or many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from autapse import checks
from autapse.models.series import Expected, read_given

if TYPE_CHECKING:
    from autapse.models.encoder_decoder import EncoderDecoder

TOGETHER = 256  # sequences that are computed at a time


class Text(Protocol):
    """The symbols that a text may have, with their numbers."""

    def ids(self, text: str) -> np.ndarray: ...  # [T]

    def split(self, text: str) -> list[str]: ...  # its symbols

    def unknown(self, text: str) -> list[str]: ...  # those that are not known

    def text(self, ids: Iterable[int] | np.ndarray) -> str: ...


class Translation(NamedTuple):
    """A translation with its scores."""

    target: Any
    """The text, or the numbers of the symbols."""
    log_likelihood: float
    score: float
    """What translations are compared by: the log-likelihood, divided by a power of the length."""


class Sources(NamedTuple):
    """Sequences to translate."""

    series: list[np.ndarray]  # [T_n, D] each
    form: Literal["single", "array", "list"]
    is_text: bool


def read_sources(x: Any, lengths: Any, model: EncoderDecoder) -> Sources:
    """The sequences in what a user passes to `translate`.

    Args:
        x: a text, a list of texts, or arrays as for other models.
        lengths: [N], the length of each sequence of an array with padding.
        model: the model that reads them.
    """
    if isinstance(x, str):
        return read_sources([x], lengths, model)._replace(form="single")
    if isinstance(x, list | tuple) and all(isinstance(one, str) for one in x):
        if lengths is not None:
            checks.fail("lengths", "be None for texts, which have their own lengths", lengths)
        return Sources([_source_ids(text, n, model)[:, None] for n, text in enumerate(x)], "list", True)
    words, double = bool(len(model.inputs.tables)), model.decoder.head.linear.weight.dtype == torch.float64
    gaps = model.inputs.missing != "error"
    expected = Expected(model.inputs.input_size, model.channels, words, gaps, "float64" if double else "float32")
    given = read_given(x, lengths, expected)
    return Sources(given.series, given.form, False)


def _source_ids(text: str, n: int, model: EncoderDecoder) -> np.ndarray:  # [T]
    if model.source is None:
        checks.fail(f"x[{n}]", "be numbers: the model does not know which texts they stand for", text)
    ids = model.source.ids(text)
    if (ids < 0).any():  # there is no number for other symbols
        checks.fail(f"x[{n}]", "have only symbols that the model knows", model.source.unknown(text)[0])
    return ids


def read_targets(targets: Sequence[Any], model: EncoderDecoder) -> list[np.ndarray]:
    """The numbers of the symbols of some targets, texts or arrays. All must be known."""
    made, count = [], model.decoder.elements.symbols
    for n, one in enumerate(targets):
        if isinstance(one, str):
            if model.target is None:
                checks.fail(f"target {n}", "be numbers: the model does not know which texts they stand for", one)
            if unknown := model.target.unknown(one):
                checks.fail(f"target {n}", "have only symbols that the model knows", unknown[0])
        ids = np.asarray(model.target.ids(one) if isinstance(one, str) and model.target else one)
        if ids.ndim != 1 or (ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= count)):
            checks.fail(f"target {n}", f"be integers from 0 to {count - 1}, [T]", ids)
        made.append(ids.astype(np.int64))
    return made


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
