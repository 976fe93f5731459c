"""What an explicit memory holds over time, and where its heads are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Memory
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
        steps, row = slice(int(self.lengths[sequence])), slice(sequence, sequence + 1)
        memory, read, write, reads = (part[steps, row] for part in (self.memory, self.read, self.write, self.reads))
        return MemoryTrace(memory, read, write, reads, self.lengths[row])


@torch.no_grad()
def memory_trace(network: Recurrent | SequenceModel, x: Tensor, lengths: Any = None, layer: int = 0) -> MemoryTrace:
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
    was_training, run = network.training, network.layer if isinstance(network, SequenceModel) else network
    cell = _memory_cell(run, layer)
    try:
        network.eval()
        if isinstance(network, SequenceModel):
            x, lengths, _ = network._prepared(x, lengths)
            x = x if run.batch_first else x.transpose(0, 1)
        _, _, states = run(x, lengths=lengths, return_states=True)
    finally:
        network.train(was_training)
    chosen = [state.transpose(0, 1) if run.batch_first and x.dim() == 3 else state for state in states[layer]]
    parts = cell.parts(tuple(state[..., 0, :] for state in chosen))
    steps, *batch = parts.memory.shape[:-2]
    ends = np.full(batch or [1], steps) if lengths is None else np.asarray(torch.as_tensor(lengths).cpu())
    read, write = parts.addresses.split([cell.read_heads, cell.write_heads], dim=-2)
    arrays = [part.cpu().numpy() for part in (parts.memory, read, write, parts.reads)]
    memory, reading, writing, reads = (array if batch else array[:, None] for array in arrays)
    return MemoryTrace(memory, reading, writing, reads, ends)


def _memory_cell(network: Recurrent, layer: int) -> Memory:
    if not isinstance(network, Recurrent) or not issubclass(network.cell_class, Memory):
        kind = network.cell_class if isinstance(network, Recurrent) else type(network)
        rule = "be a layer of Memory cells, or a model with one"
        checks.fail("network", rule, kind.__name__, kind=checks.KindError)
    checks.integer("layer", layer, minimum=0, maximum=network.num_layers - 1)
    cell = network.cells[f"l{layer}"]
    assert isinstance(cell, Memory)
    return cell
