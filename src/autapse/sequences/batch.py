"""SequenceBatch: one layout for padded, ragged, packed and unbatched input, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from autapse import checks
from autapse.native.ops import fresh


@dataclass
class SequenceBatch:
    """The steps of all sequences as rows, in the order of a PackedSequence: longest sequence first, step by step.

    Only valid steps are here, so whatever is computed on the rows costs the valid steps only.
    """

    rows: Tensor  # [N, D]
    sizes: list[int]  # sequences running at each step; sums to N
    count: int  # sequences in all, also those of length 0
    order: Tensor | None = None  # [B], the caller's index of each of our sequences; None if it is the same
    positions: Tensor | None = None  # [N], the row of each step in the padded, flattened tensor; None if it is the same
    padded_shape: tuple[int, ...] = ()  # leading shape of padded output, time and batch as the caller has them
    batch_first: bool = False
    unbatched: bool = False
    packed: PackedSequence | None = None

    @property
    def even(self) -> bool:
        """Whether all sequences that have steps have as many."""
        return bool(self.sizes) and self.sizes[0] == self.sizes[-1]

    def reverse(self, rows: Tensor) -> Tensor:
        """The rows with each sequence turned round within its own length; its own inverse."""
        if not self.sizes:
            return rows
        if self.even:
            return rows.view(len(self.sizes), self.sizes[0], *rows.shape[1:]).flip(0).reshape(rows.shape)
        return rows.index_select(0, self._reversed(rows.device))

    def _reversed(self, device: torch.device) -> Tensor:
        sizes = torch.tensor(self.sizes)
        starts = sizes.cumsum(0) - sizes
        lengths = (sizes[:, None] > torch.arange(self.sizes[0])).sum(0)
        return torch.cat([starts[lengths[:n] - 1 - t] + torch.arange(n) for t, n in enumerate(self.sizes)]).to(device)

    def sort(self, state: Tensor) -> Tensor:  # [B, S]
        """From the caller's order of sequences to ours."""
        return state if self.order is None else state.index_select(0, self.order)

    def unsort(self, state: Tensor) -> Tensor:
        """From our order of sequences to the caller's."""
        return state if self.order is None else torch.empty_like(state).index_copy(0, self.order, state)

    @property
    def places(self) -> Tensor:  # [B], on the CPU
        """Our index of each of the caller's sequences, to put what is said of them into the caller's order."""
        if self.order is None or self.order.is_meta:
            return torch.arange(self.count)
        return torch.argsort(self.order).cpu()

    def restore(self, rows: Tensor) -> Tensor | PackedSequence:
        """Output rows in the caller's layout."""
        if self.packed is not None:
            return self.packed._replace(data=rows)
        return self.pad(rows)

    def unpad(self, padded: Tensor) -> Tensor:  # [T, B, ...] as the caller's input is -> [N, ...]
        """The rows of what `pad` made."""
        if self.packed is not None:
            padded = padded.transpose(0, 1) if self.batch_first else padded
            return torch.cat([step[:size] for step, size in zip(self._sorted(padded), self.sizes, strict=True)])
        if self.positions is not None:
            return padded.flatten(0, 1).index_select(0, self.positions)
        if self.unbatched:
            return padded
        return (padded.transpose(0, 1) if self.batch_first else padded).flatten(0, 1)

    def _sorted(self, padded: Tensor) -> Tensor:  # [T, B, ...]
        return padded if self.order is None else padded.index_select(1, self.order)

    def pad(self, rows: Tensor) -> Tensor:
        """Rows as [T, B, ...], [B, T, ...] or [T, ...], as the caller's input is, with zeros past each end."""
        if self.packed is not None:
            return torch.nn.utils.rnn.pad_packed_sequence(self.packed._replace(data=rows), self.batch_first)[0]
        tail = rows.shape[1:]
        if self.positions is not None:
            steps = self.padded_shape[0] * self.padded_shape[1]
            padded = fresh(rows, steps, *tail).zero_().index_copy_(0, self.positions, rows)
            return padded.view(*self.padded_shape, *tail)
        if self.unbatched:
            return rows
        time_major = rows.view(len(self.sizes), self.count, *tail)
        return time_major.transpose(0, 1) if self.batch_first else time_major


def make_batch(
    x: Tensor | PackedSequence, lengths: Sequence[int] | Tensor | None, input_size: int, batch_first: bool
) -> SequenceBatch:
    """The batch of a layer's input, checked."""
    if isinstance(x, PackedSequence):
        if lengths is not None:
            checks.fail("lengths", "be left out with a PackedSequence, which has its own", _brief(lengths))
        sizes = _checked_packed(x, input_size)
        return SequenceBatch(x.data, sizes, sizes[0], order=x.sorted_indices, batch_first=batch_first, packed=x)
    if not isinstance(x, Tensor):
        checks.fail("input", "be a tensor or a PackedSequence", type(x).__name__, kind=checks.KindError)
    if x.dim() == 2:
        if lengths is not None:
            checks.fail(
                "lengths", "go with batched input of shape (T, B, D)", _brief(lengths), "Cut the sequence instead."
            )
        check_features(x, 2, input_size)
        _check_steps(x, x.shape[0])
        return SequenceBatch(x, [1] * x.shape[0], 1, unbatched=True)
    check_features(x, 3, input_size)
    steps, count = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    _check_steps(x, steps)
    if lengths is None:
        rows = (x.transpose(0, 1) if batch_first else x).reshape(steps * count, input_size)
        return SequenceBatch(rows, [count] * steps, count, batch_first=batch_first)
    return _ragged(x, _checked_lengths(lengths, steps, count), batch_first)


def _checked_packed(x: PackedSequence, input_size: int) -> list[int]:
    """The batch sizes of a PackedSequence, which anybody can put together by hand."""
    remedy = "Make it with torch.nn.utils.rnn.pack_padded_sequence or pack_sequence."
    if not isinstance(x.data, Tensor):
        checks.fail("data of the PackedSequence", "be a tensor", type(x.data).__name__, remedy, checks.KindError)
    check_features(x.data, 2, input_size)
    given = x.batch_sizes
    if not isinstance(given, Tensor) or given.dtype != torch.int64 or given.dim() != 1 or given.device.type != "cpu":
        rule = "be a tensor of dtype torch.int64 with one dimension, on the CPU"
        checks.fail("batch_sizes of the PackedSequence", rule, given, remedy, checks.KindError)
    sizes: list[int] = given.tolist()
    shrinking = sizes == sorted(sizes, reverse=True)
    if not (sizes and shrinking and sizes[-1] > 0 and sum(sizes) == len(x.data)):
        rule = f"be positive, never grow and sum to the {len(x.data)} rows of data"
        checks.fail("batch_sizes of the PackedSequence", rule, _brief(sizes), remedy, checks.ShapeError)
    _check_order("sorted_indices", x.sorted_indices, sizes[0], x.data.device)
    _check_order("unsorted_indices", x.unsorted_indices, sizes[0], x.data.device)
    return sizes


def _check_order(name: str, order: Any, count: int, device: torch.device) -> None:
    if order is None:
        return
    whole = isinstance(order, Tensor) and order.dtype == torch.int64 and order.device == device
    right = whole and tuple(order.shape) == (count,)
    # Elsewhere a look at the values would wait for the device, whose own kernels check them.
    if not right or (device.type == "cpu" and sorted(order.tolist()) != list(range(count))):
        rule = f"have each of the {count} sequences once, as torch.int64 on the device of data"
        checks.fail(f"{name} of the PackedSequence", rule, _brief(order), kind=checks.ShapeError)


def _ragged(x: Tensor, lengths: Tensor, batch_first: bool) -> SequenceBatch:
    ordered, order = torch.sort(lengths, descending=True, stable=True)
    longest = int(ordered[0]) if len(ordered) else 0
    running = torch.arange(longest)[:, None] < ordered  # [longest, B], the steps that exist, in packed order
    step, sequence = running.nonzero(as_tuple=True)
    stride_step, stride_sequence = (1, x.shape[1]) if batch_first else (x.shape[1], 1)
    positions = (step * stride_step + order[sequence] * stride_sequence).to(x.device)
    return SequenceBatch(
        rows=x.reshape(-1, x.shape[2]).index_select(0, positions),
        sizes=running.sum(1).tolist(),
        count=len(lengths),
        order=order.to(x.device),
        positions=positions,
        padded_shape=tuple(x.shape[:2]),
        batch_first=batch_first,
    )


def check_features(x: Tensor, dims: int, input_size: int) -> None:
    if x.dim() != dims:
        rule = "have shape (T, B, D), (B, T, D) with batch_first, or (T, D)"
        checks.fail("input", rule, tuple(x.shape), kind=checks.ShapeError)
    if x.shape[-1] != input_size:
        rule = f"have input_size = {input_size} features in its last dimension"
        checks.fail("input", rule, tuple(x.shape), kind=checks.ShapeError)


def _check_steps(x: Tensor, steps: int) -> None:
    if steps == 0:
        remedy = "A sequence of length 0 goes in a padded batch with lengths."
        checks.fail("input", "have at least one step", tuple(x.shape), remedy, checks.ShapeError)


def _checked_lengths(lengths: Sequence[int] | Tensor, steps: int, count: int) -> Tensor:
    rule = f"be {count} integers from 0 to {steps}, one per sequence"
    try:
        found = torch.as_tensor(lengths).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        checks.fail("lengths", rule, lengths)
    whole = not (found.dtype.is_floating_point or found.dtype.is_complex or found.dtype == torch.bool)
    if not whole and found.numel():  # an empty list becomes a float tensor
        checks.fail("lengths", rule, _brief(lengths), "Convert them with .long().")
    if tuple(found.shape) != (count,) or bool(((found < 0) | (found > steps)).any()):
        checks.fail("lengths", rule, _brief(lengths))
    return found.long()


def _brief(lengths: Any) -> Any:
    values = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [*values[:8], "..."] if isinstance(values, list) and len(values) > 8 else values
