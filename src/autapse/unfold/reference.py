"""The scan in plain PyTorch: one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from autapse.cells import Cell
from autapse.forms import State
from autapse.gradient.function import without_autocast
from autapse.sequences.walk import walk
from autapse.solve import SolveReport

Scanned = tuple[State, State]  # one [N, S] per state, after each step; one [B, S] per carried tensor, at the ends
Note = Callable[[SolveReport], None]


def scan_reference(
    cell: Cell,
    x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # number of sequences at each step; never grows; sums to N
    start: int = 0,  # position of the first step
    keep: bool = True,  # all states of each step, not only the first, which is the output
    weights: Any = None,  # the result of cell.prepare(), if the caller has it
    reverse: bool = False,  # from the last step to the first; for sequences of one length
    note: Note | None = None,  # gets the report of each step that is solved
) -> Scanned:
    """The states after each step and at each sequence's own end."""
    weights = cell.prepare() if weights is None else weights

    def step(u: Tensor, state: State, t: int) -> State:
        return cell.advance(u, state, weights, t, check=t == start)

    def solved_step(u: Tensor, state: State, t: int) -> State:
        new, report = cell.solved_step(u, state, weights)
        if note is not None:
            note(report)
        return new

    keep = keep or not cell.outputs_state
    drive, count = cell.drive(x), len(cell.state_sizes) if keep else 1
    if not cell.is_solved:
        return walk(step, drive, state, sizes, start, reverse, count)
    with without_autocast(x.device.type):
        return walk(solved_step, drive, state, sizes, start, reverse, count)
