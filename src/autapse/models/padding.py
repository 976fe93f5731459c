"""Which steps of a padded batch belong to a sequence, and functions of those steps alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from autapse.sequences.lengths import checked_lengths


class Padded(NamedTuple):
    """Sequences of several lengths in one tensor.

    Args:
        values: [B, T] symbols, or [B, T, D] values; what comes after the end of a sequence does not matter.
        lengths: [B], on the CPU.

    >>> Padded(torch.tensor([[3, 1, 4], [1, 0, 0]]), torch.tensor([3, 1])).lengths.tolist()
    [3, 1]
    """

    values: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, sequences: Sequence[np.ndarray], device: torch.device | str | None = None) -> Padded:
        """Sequences of symbols in one tensor, with zeros after their ends.

        Args:
            sequences: arrays of integers.
            device: where the tensor is to be.
        """
        rows = [torch.from_numpy(np.ascontiguousarray(one)) for one in sequences]
        return cls(pad_sequence(rows, batch_first=True).to(device), torch.tensor([len(row) for row in rows]))


def ragged_lengths(lengths: Sequence[int] | Tensor | None, x: Tensor) -> Tensor | None:  # [B], on the CPU
    """The checked lengths of a batch [B, T, D]; None if no sequence has padding, which needs no masks."""
    if lengths is None:
        return None
    known = checked_lengths(lengths, x.shape[1], len(x))
    return None if bool((known == x.shape[1]).all()) else known


def inside(lengths: Tensor, x: Tensor) -> Tensor:  # [B, T, 1] bool
    """Which steps of a batch [B, T, D] belong to a sequence."""
    steps = torch.arange(x.shape[1], device=x.device)
    return (steps < lengths.to(x.device)[:, None])[..., None]


def softmax_inside(energies: Tensor, lengths: Tensor | None, dims: int = 1) -> Tensor:
    """The softmax over the last dimensions, with zeros after the end of a sequence; all zeros if it has no step.

    Args:
        energies: [B, ..., S].
        lengths: [B]; None if all sequences have S steps.
        dims: how many dimensions, together.

    >>> softmax_inside(torch.zeros(2, 3), torch.tensor([2, 0])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    if lengths is None:
        return energies.flatten(-dims).softmax(-1).view(energies.shape)
    steps = torch.arange(energies.shape[-1], device=energies.device)
    outside = steps >= lengths.to(energies.device).view(-1, *[1] * (energies.dim() - 1))
    # A finite number: if a sequence has no step at all, infinity would give NaN.
    energies = energies.masked_fill(outside, torch.finfo(energies.dtype).min)
    return softmax_inside(energies, None, dims).masked_fill(outside, 0)


def rows_inside(mask: Tensor) -> Tensor:  # [B, T, 1] -> [N]
    """The numbers of these steps among all B·T steps."""
    return mask.flatten().nonzero().squeeze(1)


def on_rows(function: Callable[[Tensor], Tensor], x: Tensor, rows: Tensor | None) -> Tensor:  # [B, T, C]
    """A function of rows [N, C] on the steps `rows` of a batch, and zeros elsewhere; on all steps if rows is None."""
    flat = x.reshape(-1, x.shape[-1])
    if rows is None:
        return function(flat).view(x.shape)
    return torch.zeros_like(flat).index_copy(0, rows, function(flat.index_select(0, rows))).view(x.shape)
