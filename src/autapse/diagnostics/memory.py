"""What an explicit memory holds over time, and where its heads are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from autapse import checks
from autapse.cells import Memory
from autapse.diagnostics.trajectories import cell_of, layer_input, states_of
from autapse.layers import Recurrent
from autapse.models import SequenceModel


@dataclass(frozen=True, eq=False)
class MemoryTrace:
    """The memory of a network at each step of B sequences, from `memory_trace`. Steps after an end are zero."""

    memory: np.ndarray  # [T, B, slots, width], after each step
    read: np.ndarray  # [T, B, read heads, slots], the addresses that were read
    write: np.ndarray  # [T, B, write heads, slots], the addresses that were written
    reads: np.ndarray  # [T, B, read heads, width], what was read
    lengths: np.ndarray  # [B]

    def one(self, sequence: int) -> MemoryTrace:
        """The trace of one sequence, without the steps after its end."""
        checks.integer("sequence", sequence, minimum=0, maximum=len(self.lengths) - 1)
        steps, row = slice(int(self.lengths[sequence])), slice(sequence, sequence + 1)
        memory, read, write, reads = (part[steps, row] for part in (self.memory, self.read, self.write, self.reads))
        return MemoryTrace(memory, read, write, reads, self.lengths[row])


@torch.no_grad()
def memory_trace(network: Recurrent | SequenceModel, x: Any, lengths: Any = None, layer: int = 0) -> MemoryTrace:
    """Run a network with an explicit memory, and note its memory and its addresses at every step.

    Args:
        network: a layer of `Memory` cells, or a model with one. It is run in evaluation mode, forwards.
        x: its input, as it takes it.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.

    Returns:
        A `MemoryTrace`, with numpy arrays.

    >>> trace = memory_trace(autapse.Memory(3, 8, slots=6, width=4), torch.randn(10, 2, 3))
    >>> trace.memory.shape, trace.read.shape, trace.write.shape
    ((10, 2, 6, 4), (10, 2, 1, 6), (10, 2, 1, 6))
    """
    cell = _memory_cell(network, layer)
    run, x, known = layer_input(network, x, lengths)
    parts = cell.parts(tuple(state[:, :, 0] for state in states_of(run, x, known)[layer]))
    read, write = parts.addresses.split([cell.read_heads, cell.write_heads], dim=-2)
    memory, reading, writing, reads = (part.cpu().numpy() for part in (parts.memory, read, write, parts.reads))
    return MemoryTrace(memory, reading, writing, reads, known.numpy())


def _memory_cell(network: Any, layer: int) -> Memory:
    run = network.layer if isinstance(network, SequenceModel) else network
    if not isinstance(run, Recurrent) or not issubclass(run.cell_class, Memory):
        kind = run.cell_class if isinstance(run, Recurrent) else type(run)
        rule = "be a layer of Memory cells, or a model with one"
        checks.fail("network", rule, kind.__name__, kind=checks.KindError)
    cell = cell_of(run, layer)
    assert isinstance(cell, Memory)
    return cell
