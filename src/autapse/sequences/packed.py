"""How a PackedSequence is read and checked. It may have been made by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from autapse import checks

REMEDY = "Make it with torch.nn.utils.rnn.pack_padded_sequence or pack_sequence."


def packed_rows(x: PackedSequence) -> Tensor:  # [N, D]
    """The steps of all sequences, step by step."""
    if not isinstance(x.data, Tensor):
        checks.fail("data of the PackedSequence", "be a tensor", type(x.data).__name__, REMEDY, checks.KindError)
    return x.data


def packed_sizes(x: PackedSequence) -> list[int]:
    """The number of sequences per step, if it fits the rows and the order of the sequences is valid."""
    given = x.batch_sizes
    if not isinstance(given, Tensor) or given.dtype != torch.int64 or given.dim() != 1 or given.device.type != "cpu":
        rule = "be a tensor of dtype torch.int64 with one dimension, on the CPU"
        checks.fail("batch_sizes of the PackedSequence", rule, given, REMEDY, checks.KindError)
    sizes: list[int] = given.tolist()
    shrinking = sizes == sorted(sizes, reverse=True)
    if not (sizes and shrinking and sizes[-1] > 0 and sum(sizes) == len(x.data)):
        rule = f"be positive, never grow and sum to the {len(x.data)} rows of data"
        checks.fail("batch_sizes of the PackedSequence", rule, checks.brief(sizes), REMEDY, checks.ShapeError)
    _check_order("sorted_indices", x.sorted_indices, sizes[0], x.data.device)
    _check_order("unsorted_indices", x.unsorted_indices, sizes[0], x.data.device)
    return sizes


def _check_order(name: str, order: Any, count: int, device: torch.device) -> None:
    if order is None:
        return
    integral = isinstance(order, Tensor) and order.dtype == torch.int64 and order.device == device
    right = integral and tuple(order.shape) == (count,)
    # On other devices, reading the values would wait for the device, and its own kernels check them.
    if not right or (device.type == "cpu" and sorted(order.tolist()) != list(range(count))):
        rule = f"have each of the {count} sequences once, as torch.int64 on the device of data"
        checks.fail(f"{name} of the PackedSequence", rule, checks.brief(order), kind=checks.ShapeError)
