"""Data on a device, and the batches of each step: whole sequences in a new order each epoch, or pieces of a text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.models.padding import Padded
from autapse.tasks import IGNORE, Data
from autapse.tasks.base import Transform, dense

POOL = 50  # batches whose sequences are sorted by length together: few enough that batches stay random
ROWS = 20  # parallel streams of a text when it is scored


class Batch(NamedTuple):
    """Some sequences, padded to the longest of them."""

    inputs: Tensor  # [B, T, D]
    targets: Tensor
    lengths: Tensor | None = None  # [B], on the CPU
    fresh: bool = True
    """Whether it starts from initial states; otherwise from the final states of the batch before it."""
    weights: Tensor | None = None  # [B] the weight of each sequence in the loss
    target_lengths: Tensor | None = None  # [B], on the CPU, of targets that are sequences with lengths of their own

    @property
    def padded_targets(self) -> Padded:
        """Targets that are sequences, with their lengths."""
        lengths = self.lengths if self.target_lengths is None else self.target_lengths
        return Padded(
            self.targets, torch.full(self.targets.shape[:1], self.targets.shape[1]) if lengths is None else lengths
        )


@dataclass(frozen=True)
class Tensors:
    """A split of a task's data as tensors on a device; made by `Tensors.of`.

    >>> from autapse.tasks import Adding
    >>> data = Tensors.of(Adding(length=10).split("test", seed=0), "cpu")
    >>> data.take([0, 1, 2]).inputs.shape
    torch.Size([3, 10, 2])
    """

    inputs: Tensor  # [N, T, D]; for ragged sequences [steps of all, D]
    targets: Tensor  # [N] or [N, K], or one per step: [N, T], for ragged sequences [steps of all]
    lengths: Tensor | None = None  # [N], on the CPU
    starts: Tensor | None = None  # [N], on the CPU: the first row of each ragged sequence
    target_lengths: Tensor | None = None  # [N], on the CPU, of ragged targets with lengths of their own
    target_starts: Tensor | None = None  # [N], on the CPU: the first row of each ragged target
    per_step: bool = False
    """Whether every step has a target, rather than every sequence."""
    span: int | None = None
    """Steps of one piece of a text; None for whole sequences."""
    carry: bool = False
    """Whether a piece of a text starts from the final state of the piece before it."""
    transform: Transform | None = None
    """A random change of the inputs, new at each step."""
    weights: Tensor | None = None
    """[N] the weight of each sequence in the training loss, 1 on average; None for 1."""

    @classmethod
    def of(cls, data: Data, device: torch.device | str) -> Tensors:
        """The tensors of a split.

        Args:
            data: what `task.split` returns.
            device: where the tensors are to be. Lengths stay on the CPU.
        """
        starts, lengths = _places(data.inputs)
        lengths = data.lengths if lengths is None else lengths
        target_starts, target_lengths = _places(data.targets)
        if lengths is not None and target_lengths is not None and np.array_equal(lengths, target_lengths):
            target_lengths = None
        targets = dense(data.targets)
        return cls(
            inputs=torch.from_numpy(dense(data.inputs)).to(device),
            targets=torch.from_numpy(targets).to(device),
            lengths=None if lengths is None else torch.from_numpy(lengths),
            starts=None if starts is None else torch.from_numpy(starts),
            target_lengths=None if target_lengths is None else torch.from_numpy(target_lengths),
            target_starts=None if target_starts is None else torch.from_numpy(target_starts),
            per_step=isinstance(data.targets, Ragged) or (targets.ndim == 2 and targets.dtype.kind == "i"),
            span=data.span,
            carry=data.span is not None and data.carry,
            transform=data.transform,
            weights=None if data.weights is None else torch.from_numpy(data.weights).float().to(device),
        )

    def __len__(self) -> int:
        return len(self.inputs if self.starts is None else self.starts)

    def take(self, index: list[int], seed: tuple[int, ...] = (0,)) -> Batch:
        """Some of the sequences, as a batch.

        Args:
            index: the numbers of the sequences.
            seed: with a sequence's number, the seed of its random transform.
        """
        chosen = torch.tensor(index, dtype=torch.int64)
        inputs, lengths = self._inputs(chosen)
        targets, target_lengths = self._targets(chosen, inputs.shape[1])
        batch = Batch(inputs, targets, lengths, target_lengths=target_lengths)
        if self.weights is not None:
            batch = batch._replace(weights=self.weights[chosen])
        if self.transform is None:
            return batch
        # One by one, so that processes that share a batch get the same values as one process alone.
        stored = batch.inputs.cpu().numpy()
        made = [self.transform(stored[k : k + 1], np.random.default_rng((*seed, n))) for k, n in enumerate(index)]
        return batch._replace(inputs=torch.from_numpy(np.concatenate(made)).to(self.inputs.device))

    def _inputs(self, chosen: Tensor) -> tuple[Tensor, Tensor | None]:
        """The inputs of some sequences, as long as the longest of them, and their lengths."""
        if self.lengths is None:
            return self.inputs[chosen], None
        lengths = self.lengths[chosen]
        if self.starts is None:
            return self.inputs[chosen][:, : max(int(lengths.max()), 1)], lengths
        return _padded(self.inputs, self.starts[chosen], lengths, 0), lengths

    def _targets(self, chosen: Tensor, steps: int) -> tuple[Tensor, Tensor | None]:
        """The targets of some sequences, and their lengths if they are ragged.

        After the end of a sequence they are IGNORE for classes, and NaN for values.
        """
        if self.target_starts is not None:
            fill = math.nan if self.targets.is_floating_point() else IGNORE
            own = None if self.target_lengths is None else self.target_lengths[chosen]
            lengths = own if own is not None or self.lengths is None else self.lengths[chosen]
            assert lengths is not None, "ragged targets have lengths"
            return _padded(self.targets, self.target_starts[chosen], lengths, fill), own
        targets = self.targets[chosen]
        return targets[:, :steps] if self.per_step else targets, None


def _places(values: np.ndarray | Ragged) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The first row of each sequence, and its length; None if sequences are not ragged."""
    return (values.starts[:-1], values.lengths) if isinstance(values, Ragged) else (None, None)


def _padded(values: Tensor, starts: Tensor, lengths: Tensor, fill: float) -> Tensor:  # [B, T, ...]
    """Ragged sequences in one tensor, with `fill` after the end of each."""
    steps = torch.arange(max(int(lengths.max()), 1))
    inside = steps < lengths[:, None]
    places = torch.where(inside, starts[:, None] + steps, 0).to(values.device)
    rows = values[places]
    return torch.where(inside.to(values.device).view(*inside.shape, *[1] * (rows.dim() - 2)), rows, fill)


class Feed(Protocol):
    """The training batches, step by step. The same data, settings and step give the same batch."""

    @property
    def per_epoch(self) -> int:
        """Steps of one pass over the data."""

    def sequences(self, step: int) -> list[int]:
        """The numbers of the sequences, or of the streams of a text, that a step uses."""

    def batch(self, step: int, sequences: list[int]) -> Batch:
        """The batch of some of those, for one process."""


class Shuffled:
    """Whole sequences, in another order each epoch."""

    def __init__(self, data: Tensors, batch_size: int, seed: int, bucket: bool) -> None:
        self.data, self.size, self.seed = data, min(batch_size, len(data)), seed
        self.lengths = data.lengths if bucket else None
        self._epoch, self._order = -1, list[int]()

    @property
    def per_epoch(self) -> int:
        return len(self.data) // self.size

    def sequences(self, step: int) -> list[int]:
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, epoch_order(len(self.data), self.seed, epoch, self.size, self.lengths)
        return self._order[place * self.size : (place + 1) * self.size]

    def batch(self, step: int, sequences: list[int]) -> Batch:
        return self.data.take(sequences, (self.seed, step, 11))


class Text:
    """One long sequence, cut into parallel streams that are read `span` steps at a time."""

    def __init__(self, data: Tensors, rows: int) -> None:
        if len(data) != 1 or data.span is None:
            checks.fail("data", "be one sequence with a span to be read in pieces", len(data))
        self.data, self.span = data, data.span
        steps = data.inputs.shape[1]
        self.rows = min(rows, steps)
        self.length = steps // self.rows  # the rest is dropped, like an incomplete last batch

    @property
    def per_epoch(self) -> int:
        return -(-self.length // self.span)

    def sequences(self, step: int) -> list[int]:
        return list(range(self.rows))

    def batch(self, step: int, sequences: list[int]) -> Batch:
        place = step % self.per_epoch
        first, last = place * self.span, min((place + 1) * self.span, self.length)

        def cut(values: Tensor) -> Tensor:
            used = values[0, : self.rows * self.length]
            return used.view(self.rows, self.length, *used.shape[1:])[sequences, first:last]

        return Batch(cut(self.data.inputs), cut(self.data.targets), fresh=place == 0 or not self.data.carry)


def make_feed(data: Tensors, batch_size: int, seed: int, bucket: bool) -> Feed:
    """The feed for data of this kind."""
    return Text(data, batch_size) if data.span is not None else Shuffled(data, batch_size, seed, bucket)


def epoch_order(size: int, seed: int, epoch: int, batch_size: int = 1, lengths: Tensor | None = None) -> list[int]:
    """The order of the training sequences in an epoch, from (seed, epoch) alone.

    With `lengths`, a batch has sequences of similar length: pools of batches are sorted, and the batches shuffled.
    """
    rng = np.random.default_rng([seed, epoch, 7])
    order = rng.permutation(size)
    if lengths is None or batch_size == 1:
        return [int(n) for n in order]
    full, pool = size // batch_size * batch_size, POOL * batch_size
    chosen, rest = order[:full], order[full:]
    pools = [chosen[first : first + pool] for first in range(0, full, pool)]
    ordered = np.concatenate([p[np.argsort(lengths.numpy()[p], kind="stable")] for p in pools])
    batches = ordered.reshape(-1, batch_size)
    return [int(n) for n in np.concatenate([rng.permutation(batches).reshape(-1), rest])]


def in_order(data: Tensors, batch_size: int) -> Iterator[Batch]:
    """All of the data once, in batches, for scoring."""
    if data.span is not None:
        text = Text(_filled(data, ROWS), ROWS)
        yield from (text.batch(step, text.sequences(step)) for step in range(text.per_epoch))
        return
    # sorted by length, to pad little
    order = list(range(len(data))) if data.lengths is None else torch.argsort(data.lengths, stable=True).tolist()
    for first in range(0, len(data), batch_size):
        yield data.take(order[first : first + batch_size], (13,))


def _filled(text: Tensors, rows: int) -> Tensors:
    """A text with ignored steps at its end, so that its streams have equal lengths and no word is dropped."""
    steps = text.inputs.shape[1]
    missing = -steps % min(rows, steps)
    inputs = torch.nn.functional.pad(text.inputs, (0, 0, 0, missing))
    return replace(text, inputs=inputs, targets=torch.nn.functional.pad(text.targets, (0, missing), value=IGNORE))
