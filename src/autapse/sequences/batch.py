"""SequenceBatch: padded, ragged, packed and unbatched input as rows in one order, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from autapse import checks
from autapse.native.memory import fresh
from autapse.sequences.lengths import checked_lengths, running
from autapse.sequences.packed import packed_rows, packed_sizes


@dataclass(slots=True)
class SequenceBatch:
    """The steps of all sequences as rows, in the order of a PackedSequence: longest sequence first, step by step.

    There are no rows for padding, so work on the rows costs valid steps only.
    """

    rows: Tensor  # [N, D]
    sizes: list[int]  # number of sequences at each step; sums to N
    count: int  # number of sequences, including those of length 0
    order: Tensor | None = None  # [B], the caller's index of each sequence; None if it is the same
    positions: Tensor | None = None  # [N], the row of each step in the padded, flattened tensor; None if it is the same
    padded_shape: tuple[int, ...] = ()  # leading shape of padded output, time and batch as the caller has them
    batch_first: bool = False
    unbatched: bool = False
    packed: PackedSequence | None = None

    @property
    def even(self) -> bool:
        """Whether all sequences have the same length, apart from those of length 0."""
        return bool(self.sizes) and self.sizes[0] == self.sizes[-1]

    def reverse(self, rows: Tensor) -> Tensor:
        """The rows with each sequence reversed within its length. Doing it twice restores them."""
        if not self.sizes:
            return rows
        if self.even:
            return rows.view(len(self.sizes), self.sizes[0], *rows.shape[1:]).flip(0).reshape(rows.shape)
        return rows.index_select(0, self._reversed(rows.device))

    def _reversed(self, device: torch.device) -> Tensor:
        sizes = torch.tensor(self.sizes)
        starts = sizes.cumsum(0) - sizes
        lengths = self.lengths
        return torch.cat([starts[lengths[:n] - 1 - t] + torch.arange(n) for t, n in enumerate(self.sizes)]).to(device)

    @property
    def lengths(self) -> Tensor:  # [B], on the CPU
        """The length of each sequence, longest first."""
        return running(torch.tensor(self.sizes, dtype=torch.long), self.count).sum(1)

    def sort(self, state: Tensor) -> Tensor:  # [B, S]
        """From the caller's order of sequences to that of the batch."""
        return state if self.order is None else state.index_select(0, self.order)

    def stack(self, states: Sequence[Tensor]) -> Tensor:  # n of [B, S] -> [n, B, S], or [n, S] for unbatched input
        """States in one tensor, in the caller's order of sequences."""
        stacked = torch.stack([state.squeeze(0) for state in states] if self.unbatched else states)  # type: ignore[arg-type]
        return stacked if self.order is None else torch.empty_like(stacked).index_copy(1, self.order, stacked)

    @property
    def places(self) -> Tensor:  # [B], on the CPU
        """The index in the batch of each of the caller's sequences, to sort reports."""
        if self.order is None or self.order.is_meta:
            return torch.arange(self.count)
        return torch.argsort(self.order).cpu()

    def restore(self, rows: Tensor) -> Tensor | PackedSequence:
        """Output rows in the caller's layout."""
        if self.packed is not None:
            return self.packed._replace(data=rows)
        return self.pad(rows)

    def unpad(self, padded: Tensor) -> Tensor:  # [T, B, ...] as the caller's input is -> [N, ...]
        """The inverse of `pad`."""
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
        """Rows in the shape of the caller's input, [T, B, ...], [B, T, ...] or [T, ...]; zeros after each end."""
        if self.packed is not None:
            return torch.nn.utils.rnn.pad_packed_sequence(self.packed._replace(data=rows), self.batch_first)[0]
        tail = rows.shape[1:]
        if self.positions is not None:
            steps = self.padded_shape[0] * self.padded_shape[1]
            padded = fresh(rows, (steps, *tail)).zero_().index_copy_(0, self.positions, rows)
            return padded.view(*self.padded_shape, *tail)
        if self.unbatched:
            return rows
        time_major = rows.view(len(self.sizes), self.count, *tail)
        return time_major.transpose(0, 1) if self.batch_first else time_major


def make_batch(
    x: Tensor | PackedSequence,
    lengths: Sequence[int] | Tensor | None,
    input_size: int,
    batch_first: bool,
    dtype: torch.dtype | None = None,  # of the weights; None if there are none
) -> SequenceBatch:
    """Check a layer's input and make its batch."""
    if isinstance(x, PackedSequence):
        if lengths is not None:
            checks.fail("lengths", "be None with a PackedSequence, which has its own", checks.brief(lengths))
        rows = packed_rows(x)
        check_input(rows, 2, input_size, dtype)
        sizes = packed_sizes(x)
        return SequenceBatch(rows, sizes, sizes[0], order=x.sorted_indices, batch_first=batch_first, packed=x)
    if not isinstance(x, Tensor):
        checks.fail("input", "be a tensor or a PackedSequence", type(x).__name__, kind=checks.KindError)
    if x.dim() == 2:
        if lengths is not None:
            checks.fail(
                "lengths",
                "be used with batched input of shape (T, B, D)",
                checks.brief(lengths),
                "Cut the sequence instead.",
            )
        check_input(x, 2, input_size, dtype)
        _check_steps(x, x.shape[0])
        return SequenceBatch(x, [1] * x.shape[0], 1, unbatched=True)
    check_input(x, 3, input_size, dtype)
    steps, count = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    _check_steps(x, steps)
    if lengths is None:
        rows = (x.transpose(0, 1) if batch_first else x).reshape(steps * count, input_size)
        return SequenceBatch(rows, [count] * steps, count, batch_first=batch_first)
    return _ragged(x, checked_lengths(lengths, steps, count), batch_first)


def _ragged(x: Tensor, lengths: Tensor, batch_first: bool) -> SequenceBatch:
    ordered, order = torch.sort(lengths, descending=True, stable=True)
    longest = int(ordered[0]) if len(ordered) else 0
    exists = running(ordered, longest)  # [longest, B], in the order of the rows
    step, sequence = exists.nonzero(as_tuple=True)
    stride_step, stride_sequence = (1, x.shape[1]) if batch_first else (x.shape[1], 1)
    positions = (step * stride_step + order[sequence] * stride_sequence).to(x.device)
    return SequenceBatch(
        rows=x.reshape(-1, x.shape[2]).index_select(0, positions),
        sizes=exists.sum(1).tolist(),
        count=len(lengths),
        order=order.to(x.device),
        positions=positions,
        padded_shape=tuple(x.shape[:2]),
        batch_first=batch_first,
    )


def check_input(x: Tensor, dims: int, input_size: int, dtype: torch.dtype | None) -> None:
    if x.dim() != dims:
        rule = "have shape (T, B, D), (B, T, D) with batch_first, or (T, D)"
        checks.fail("input", rule, tuple(x.shape), kind=checks.ShapeError)
    if x.shape[-1] != input_size:
        rule = f"have input_size = {input_size} features in its last dimension"
        checks.fail("input", rule, tuple(x.shape), kind=checks.ShapeError)
    if dtype not in (None, x.dtype) and not torch.is_autocast_enabled(x.device.type):
        remedy = f"Convert the input with .to({dtype})" + (
            f" or the layer with .to({x.dtype})." if x.is_floating_point() else "."
        )
        checks.fail("input", f"have the dtype of the weights, {dtype}", x.dtype, remedy)


def _check_steps(x: Tensor, steps: int) -> None:
    if steps == 0:
        remedy = "For a sequence of length 0, use a padded batch with lengths."
        checks.fail("input", "have at least one step", tuple(x.shape), remedy, checks.ShapeError)
